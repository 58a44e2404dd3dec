// Training that is asked to stop at a random moment, by each of the signals that schedulers send or by a file in its
// run's folder, alone and as a job: it leaves with 75 and what it leaves is durable, as the same command goes on to the
// losses and weights of the run that nobody disturbed. HYPERION_PREEMPTIONS says how many to try
// (script/test-preemption: 300).
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "hyperion/base/format.h"
#include "tests/end_to_end/support_processes.h"
#include "tests/support/seed.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::Program;
using testing::read_file;
using testing::Scratch;
using testing::operator+;
using Clock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr double kAnswer = 30;  // seconds from the request to the end
constexpr int kFile = 0;        // in place of a signal

double seconds_from(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

// Whether the program takes this signal by now; before that, while it is loaded, it just ends by it.
bool takes_signal(const Program& program, int signal) {
  std::istringstream lines(read_file(base::format("/proc/{}/status", program.pid())));
  uint64_t taken = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("SigBlk:") || line.starts_with("SigCgt:"))
      taken |= std::strtoull(line.c_str() + 7, nullptr, 16);
  return (taken >> (signal - 1) & 1) != 0;
}

class Preemption : public ::testing::Test {
 protected:
  Words command(const std::string& name, bool job) const {
    const Words train{"train",
                      testing::tiny_recipe(scratch_),
                      "--run",
                      name,
                      "--or-resume",
                      "--device",
                      "cpu",
                      "--train.deterministic=true",
                      "--eval.every=2",
                      "--checkpoint.every=3",
                      "--eval.batches=4"};
    return job ? Words{"launch", "-n", "2", "--logs", name + "-logs", "--"} + train : train;
  }
  static std::map<std::string, std::string> environment() { return {{"OMP_NUM_THREADS", "1"}}; }
  testing::Finished finish(const std::string& name, bool job) const {
    return testing::run(scratch_, command(name, job), environment());
  }
  std::string weights(const std::string& name) const {
    std::string all;
    for (const char* shard : {"shard-0.safetensors", "shard-1.safetensors"})
      all += read_file(scratch_.runs() / name / "checkpoints/step-24" / shard);
    return all;
  }
  Scratch scratch_;
};

TEST_F(Preemption, at_random_moments_is_answered_with_75_and_loses_nothing) {
  std::mt19937 random(static_cast<unsigned>(testing::seed()));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const char* told = std::getenv("HYPERION_PREEMPTIONS");
  const int trials = told == nullptr ? 4 : std::atoi(told);
  double whole_time[2] = {};
  for (const bool job : {false, true}) {
    const auto begun = Clock::now();
    const auto done = finish(job ? "whole-job" : "whole", job);
    ASSERT_EQ(done.code, 0) << done.err;
    whole_time[job ? 1 : 0] = seconds_from(begun);
  }
  int preempted = 0, before_first = 0, complete = 0;
  double slowest = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const bool job = trial % 2 == 1;
    const int signal = std::array{SIGTERM, SIGUSR1, SIGHUP, SIGTERM, kFile}[static_cast<size_t>(pick(5))];
    const double after = whole_time[job ? 1 : 0] * 0.001 * pick(1000);
    const std::string name = base::format("run-{}", trial);
    SCOPED_TRACE(base::format("trial {}: {} after {:.2f} s{}", trial, signal == kFile ? "a file" : ::strsignal(signal),
                              after, job ? ", a job" : ""));
    Program program(scratch_, command(name, job), environment());
    while (!takes_signal(program, SIGTERM) && !program.ends_within(0))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::duration<double>(after));
    if (signal != kFile)
      program.signal(signal);
    else if (fs::exists(scratch_.runs() / name))
      testing::write_file(scratch_.runs() / name / "stop", "");
    const auto asked = Clock::now();
    ASSERT_TRUE(program.ends_within(kAnswer)) << program.said();
    slowest = std::max(slowest, seconds_from(asked));
    const auto done = program.wait();
    EXPECT_TRUE(done.code == 75 || (done.code == 0 && testing::says(done.err, "step 24/24"))) << done.code << "\n"
                                                                                              << done.err;
    (done.code == 0 ? complete : testing::says(done.err, "the checkpoint is written") ? preempted : before_first)++;
    fs::remove(scratch_.runs() / name / "stop");  // where it came too late
    const auto rest = finish(name, job);
    EXPECT_EQ(rest.code, 0) << done.err << rest.err;
    const std::string whole = job ? "whole-job" : "whole";
    EXPECT_EQ(testing::losses(scratch_.runs() / name), testing::losses(scratch_.runs() / whole));
    EXPECT_TRUE(weights(name) == weights(whole));
    fs::remove_all(scratch_.runs() / name);
  }
  std::printf(
      "%d requests: %d left with 75 after a checkpoint, %d with 75 before their first step, %d were complete by then; "
      "the "
      "slowest answer took %.1f s\n",
      trials, preempted, before_first, complete, slowest);
}

TEST_F(Preemption, by_a_file_stops_a_run_and_is_answered_once) {
  Program program(scratch_, command("asked", false) + Words{"--steps", "1000000"}, environment());
  ASSERT_TRUE(program.wait_for_text("step 2/"));
  testing::write_file(scratch_.runs() / "asked/stop", "");
  const auto done = program.wait();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_TRUE(testing::says(done.err, "asked/stop asks the run to stop")) << done.err;
  EXPECT_FALSE(fs::exists(scratch_.runs() / "asked/stop"));
}

}  // namespace
}  // namespace hyperion
