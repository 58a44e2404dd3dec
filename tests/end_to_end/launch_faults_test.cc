// Ranks that are killed, frozen or fail at any moment of a job: it ends in time, the right one is named, nobody is
// left. HYPERION_LAUNCH_FAULTS says how many faults to try.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <random>

#include "tests/end_to_end/support_processes.h"
#include "tests/support/seed.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Scratch;

int faults_to_try() {
  const char* told = std::getenv("HYPERION_LAUNCH_FAULTS");
  return told == nullptr ? 6 : std::atoi(told);
}

TEST(LaunchFaults, at_any_moment_end_the_job_in_time_and_name_the_rank) {
  std::mt19937 random(static_cast<unsigned>(testing::seed()));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const char* const faults[] = {"kill -KILL", "kill -SEGV", "kill -STOP"};
  for (int i = 0; i < faults_to_try(); ++i) {
    Scratch scratch;
    const int world = 2 + pick(3), victim = pick(world), milliseconds = pick(900);
    const std::string fault = faults[pick(3)];
    SCOPED_TRACE(fault + " of rank " + std::to_string(victim) + " of " + std::to_string(world) + " after " +
                 std::to_string(milliseconds) + " ms, fault " + std::to_string(i));
    const std::string script = "if [ $RANK = " + std::to_string(victim) + " ]; then (sleep 0." +
                               std::to_string(1000 + milliseconds).substr(1) + "; " + fault + " $$) & fi; exec " +
                               HYPERION_PROGRAM + " rendezvous --timeout 60 --hold 60";
    const std::string mark = "HYPERION_TEST_MARK=" + scratch.path().string();
    const auto start = std::chrono::steady_clock::now();
    const Finished done = testing::run(
        scratch, {"launch", "-n", std::to_string(world), "--frozen-seconds", "1", "--", "sh", "-c", script},
        {{"HYPERION_TEST_MARK", scratch.path().string()}});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_NE(done.code, 0);
    EXPECT_LT(seconds, 25) << done.err;
    const std::string named = "launch: rank " + std::to_string(victim) + " of " + std::to_string(world) + " (process";
    EXPECT_NE(done.err.find(named), std::string::npos) << done.err;
    EXPECT_TRUE(testing::no_process_with(mark));
  }
}

}  // namespace
}  // namespace hyperion
