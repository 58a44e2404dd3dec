#include "hyperion/profile/stopped_time.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace hyperion::profile {
namespace {

// A child that a signal stops for 300 ms says so; its exit code is tenths of a second.
TEST(StoppedTime, counts_what_a_signal_takes) {
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const StoppedTime stopped;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const double before = stopped.seconds();
    if (::write(ready[1], "x", 1) != 1) ::_exit(99);
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    ::_exit(static_cast<int>((stopped.seconds() - before) * 10 + 0.5));
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ::kill(child, SIGCONT);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_GE(WEXITSTATUS(status), 2);
  EXPECT_LE(WEXITSTATUS(status), 8);
  ::close(ready[0]), ::close(ready[1]);
}

}  // namespace
}  // namespace hyperion::profile
