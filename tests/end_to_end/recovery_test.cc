// Jobs whose ranks, or whose store, are killed at random moments: they come back by themselves, and end with the losses
// and weights of the job that nobody disturbed, to the last bit. HYPERION_RECOVERIES says how many kills to try,
// HYPERION_RECOVERY_RANKS of how many processes (script/test-resume: 200 and 8).
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <regex>
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

constexpr int kRecoverySteps = 40, kEvery = 5, kKillsOfJob = 5;
constexpr double kPatience = 240;  // seconds for a job to come back, on a machine that is busy with others

double seconds_after(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

int number_of(const char* variable, int otherwise) {
  const char* told = std::getenv(variable);
  return told == nullptr ? otherwise : std::atoi(told);
}

// Stages and shards of layers, in as many copies as there are processes for; or all of the state cut by ZeRO-3.
Words layout_flags(int ranks, bool staged) {
  if (!staged) return {"--zero", "3"};
  const std::string copies = ranks > 4 ? ",dp=" + std::to_string(ranks / 4) : "";
  return {"--parallel", (ranks < 4 ? "pp=2" : "pp=2,tp=2") + copies};
}

std::vector<pid_t> children_of(pid_t parent) {
  std::istringstream words(read_file(base::format("/proc/{}/task/{}/children", parent, parent)));
  std::vector<pid_t> found;
  for (pid_t child; words >> child;) found.push_back(child);
  return found;
}

// The process below the launcher in which a start of the job has its store; 0: there is none now.
pid_t store_of(const Program& launcher) {
  const auto found = children_of(launcher.pid());
  return found.size() == 1 ? found.front() : 0;
}

pid_t rank_of(const Program& launcher, int rank) {
  const std::string variable = base::format("RANK={}", rank);
  for (const pid_t child : children_of(store_of(launcher))) {
    const std::string environment = read_file(base::format("/proc/{}/environ", child));
    for (size_t at = environment.find(variable); at != environment.npos; at = environment.find(variable, at + 1))
      if ((at == 0 || environment[at - 1] == '\0') && environment[at + variable.size()] == '\0') return child;
  }
  return 0;
}

class Recovery : public ::testing::Test {
 protected:
  Words command(const std::string& name, int ranks, const Words& flags) const {
    return Words{"launch",
                 "-n",
                 std::to_string(ranks),
                 "--logs",
                 name + "-logs",
                 "--restarts",
                 "1000",
                 "--back-off",
                 "0.2",
                 "--",
                 "train",
                 testing::tiny_recipe(scratch_),
                 "--run",
                 name,
                 "--steps",
                 std::to_string(kRecoverySteps),
                 "--train.accumulate=4",
                 "--train.batch=32",
                 "--device",
                 "cpu",
                 "--train.deterministic=true"} +
           flags;
  }
  std::map<std::string, std::string> environment() const {
    return {{"OMP_NUM_THREADS", "1"}, {"HYPERION_TEST_MARK", scratch_.path().string()}};
  }

  // The number of times that the job was started again, and what was said since the last one.
  static std::pair<int, std::string> since_restart(const std::string& said) {
    int count = 0;
    size_t last = 0;
    for (size_t at = said.find("launch: restart "); at != said.npos; at = said.find("launch: restart ", at + 1))
      ++count, last = at;
    return {count, said.substr(last)};
  }
  static bool steps_shown(const std::string& text) {
    static const std::regex step("(^|\n)step [0-9]+/");
    return std::regex_search(text, step);
  }
  template <class Condition>
  static bool comes(const Condition& condition) {
    for (const auto begun = Clock::now(); seconds_after(begun) < kPatience;
         std::this_thread::sleep_for(std::chrono::milliseconds(2)))
      if (condition()) return true;
    return false;
  }
  void expect_equal(const fs::path& run, const fs::path& whole) const {
    EXPECT_EQ(testing::losses(run), testing::losses(whole));
    const fs::path last = base::format("checkpoints/step-{}", kRecoverySteps);
    size_t files = 0;
    for (const auto& entry : fs::directory_iterator(whole / last)) {
      if (entry.path().extension() != ".safetensors") continue;
      ++files;
      EXPECT_TRUE(read_file(entry.path()) == read_file(run / last / entry.path().filename())) << entry.path();
    }
    EXPECT_GT(files, 0u);
  }

  Scratch scratch_;
};

TEST_F(Recovery, from_kills_at_random_moments_is_exact) {
  std::mt19937 random(static_cast<unsigned>(testing::seed()));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int kills = number_of("HYPERION_RECOVERIES", 4), told_ranks = number_of("HYPERION_RECOVERY_RANKS", 0);
  double slowest_word = 0, slowest_return = 0, sum_return = 0;
  int64_t most_redone = 0;
  int tried = 0;
  for (int job = 0; tried < kills; ++job) {
    const bool staged = job % 2 == 0;
    const int ranks = told_ranks > 0 ? told_ranks : staged ? 4 : 2;
    const Words flags = layout_flags(ranks, staged);
    const std::string name = base::format("job-{}", job), whole = staged ? "whole-staged" : "whole-zero";
    SCOPED_TRACE(name);
    if (!fs::exists(scratch_.runs() / whole)) {
      const auto done = testing::run(scratch_, command(whole, ranks, flags), environment());
      ASSERT_EQ(done.code, 0) << done.err;
    }
    Program launcher(scratch_, command(name, ranks, flags), environment());
    int of_job = 0;
    bool early = false;
    while (of_job < kKillsOfJob && tried < kills) {
      // While it starts, at times; else once it got further.
      early = !early && pick(4) == 0;
      const bool ready = comes([&] {
        const auto [count, since] = since_restart(launcher.said());
        return (count == of_job && (early ? rank_of(launcher, ranks - 1) != 0 : steps_shown(since))) ||
               launcher.ends_within(0);
      });
      ASSERT_TRUE(ready) << launcher.said();
      std::this_thread::sleep_for(std::chrono::milliseconds(pick(early ? 1500 : 400)));
      if (launcher.ends_within(0)) break;
      const int victim = pick(ranks + 1);  // the last one is the store
      const pid_t pid = victim == ranks ? store_of(launcher) : rank_of(launcher, victim);
      if (pid == 0 || since_restart(launcher.said()).first != of_job) continue;
      ::kill(pid, SIGKILL);
      const auto killed = Clock::now();
      ++of_job, ++tried;
      const bool told =
          comes([&] { return since_restart(launcher.said()).first == of_job || launcher.ends_within(0); });
      if (launcher.ends_within(0)) break;  // it was done
      ASSERT_TRUE(told) << launcher.said();
      const double word = seconds_after(killed);
      const bool back =
          comes([&] { return steps_shown(since_restart(launcher.said()).second) || launcher.ends_within(0); });
      ASSERT_TRUE(back) << launcher.said();
      const double came_back = seconds_after(killed);
      slowest_word = std::max(slowest_word, word), slowest_return = std::max(slowest_return, came_back);
      sum_return += came_back;
      std::smatch at;
      const std::string since = since_restart(launcher.said()).second;
      if (std::regex_search(since, at, std::regex("checkpoint of step ([0-9]+); step ([0-9]+) was reached")))
        most_redone = std::max<int64_t>(most_redone, std::stoll(at[2]) - std::stoll(at[1]));
      std::printf("%3d/%d  %-28s %-8s%-10s told and ready to start again after %5.2f s, next step after %5.2f s\n",
                  tried, kills, (flags[1] + " on " + std::to_string(ranks)).c_str(),
                  victim == ranks ? "store" : base::format("rank {}", victim).c_str(), early ? "starting" : "training",
                  word, came_back);
      std::fflush(stdout);
    }
    ASSERT_TRUE(launcher.ends_within(kPatience)) << launcher.said();
    const auto done = launcher.wait();
    EXPECT_EQ(done.code, 0) << done.err;
    expect_equal(scratch_.runs() / name, scratch_.runs() / whole);
    EXPECT_TRUE(testing::no_process_with("HYPERION_TEST_MARK=" + scratch_.path().string()));
  }
  EXPECT_LE(most_redone, kEvery + 1);
  std::printf("%d kills; told within %.2f s; next step within %.2f s, %.2f s on average; at most %ld steps redone\n",
              tried, slowest_word, slowest_return, sum_return / std::max(tried, 1), static_cast<long>(most_redone));
}

}  // namespace
}  // namespace hyperion
