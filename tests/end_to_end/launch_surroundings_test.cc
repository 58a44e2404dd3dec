// `hyperion launch` where something that it counts on is missing: it does without, or says at once what.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Scratch;

// The program in a shell's surroundings: `around` ends with what takes the program and its words, such as `exec`.
Finished run_in(const Scratch& scratch, const std::string& around, std::vector<std::string> words) {
  words.insert(words.begin(), {"-c", around + " \"$@\"", "sh", testing::program()});
  return testing::run(scratch, words, {{"HYPERION_TEST_PROGRAM", "/bin/sh"}});
}

bool can_unshare(const char* flag) {
  return std::system((std::string("unshare ") + flag + " true 2>/dev/null").c_str()) == 0;
}

TEST(LaunchSurroundings, without_proc_ranks_are_started_and_meet) {
  if (!can_unshare("-m")) GTEST_SKIP() << "no mounts of one's own here";
  Scratch scratch;
  const Finished done = run_in(scratch, "exec unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh",
                               {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("2 ranks met"), std::string::npos) << done.out << done.err;
}

TEST(LaunchSurroundings, without_the_loopback_interface_the_launcher_says_so) {
  if (!can_unshare("-n")) GTEST_SKIP() << "no network of one's own here";
  Scratch scratch;
  const Finished done = run_in(scratch, "exec timeout 20 unshare -n", {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(done.code, 3) << done.err;
  EXPECT_NE(done.err.find("ip link set lo up"), std::string::npos) << done.err;
}

TEST(LaunchSurroundings, too_few_descriptors_are_told_as_that) {
  Scratch scratch;
  const Finished launcher = run_in(scratch, "ulimit -n 20; exec", {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(launcher.code, 3) << launcher.err;
  EXPECT_NE(launcher.err.find("may have 20 files, pipes and sockets open"), std::string::npos) << launcher.err;
  // How many a rank is born with depends on who started it.
  bool told = false;
  for (int most = 5; most < 40 && !told; ++most) {
    const std::string limited = "ulimit -n " + std::to_string(most) + "; exec \"$0\" rendezvous";
    const Finished rank = testing::run(scratch, {"launch", "-n", "2", "--", "sh", "-c", limited, testing::program()});
    told = rank.code == 1 &&
           rank.err.find("may have " + std::to_string(most) + " files, pipes and sockets open") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST(LaunchSurroundings, a_soft_limit_of_descriptors_is_raised_to_the_hard_one) {
  Scratch scratch;
  const Finished done = run_in(scratch, "ulimit -S -n 20; exec", {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("2 ranks met"), std::string::npos) << done.out << done.err;
}

}  // namespace
}  // namespace hyperion
