// A rank of a training job that is killed, frozen, late, or asks for something else than the others, at any moment:
// every other rank ends in time and names it and what it was waiting in, and no process or port is left.
// HYPERION_TRAIN_FAULTS says how many faults to try (script/test-faults: 200).
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>
#include <thread>

#include "hyperion/base/format.h"
#include "tests/end_to_end/support_program.h"
#include "tests/support/seed.h"

namespace hyperion {
namespace {

namespace fs = std::filesystem;
using testing::read_file;
using testing::Scratch;

constexpr int kTimeout = 4;  // seconds: parallel.timeout of the jobs
constexpr double kInTime =
    25;  // a whole job: start and steps on a busy machine, timeout, asking around, the launcher's grace

constexpr double kGivenUp = 90;

struct Kind {
  std::string name;
  std::string of_shell;  // what the culprit's shell does first; empty: a fault point does it
  std::string of_call;   // what happens at one of its calls
};
const std::vector<Kind> kKinds{{"killed at any time", "(sleep $AFTER; kill -KILL $$) &", ""},
                               {"killed at a call", "", "kill"},
                               {"frozen at any time", "(sleep $AFTER; kill -STOP $$) &", ""},
                               {"frozen at a call", "", "freeze"},
                               {"late from the start", "sleep 60;", ""},
                               {"late at a call", "", "stall"},
                               {"asks for another operation", "", "operation"},
                               {"asks for another shape", "", "shape"},
                               {"asks for another type", "", "type"}};

struct Trial {
  Kind kind;
  int world, culprit, zero, call;
  double after;  // seconds
  bool checked;  // parallel.check_calls: without it nobody can tell who asked for something else
  std::string layout = {};
  std::string text() const {
    std::ostringstream out;
    out << kind.name << ", rank " << culprit << " of " << world << ", zero " << zero << (layout.empty() ? "" : ", ")
        << layout;
    if (kind.of_call.empty())
      out << ", " << after << " s";
    else
      out << ", call " << call;
    return out.str();
  }
};

struct Outcome {
  double seconds = 0;
  std::string wrong;  // empty: as it should be
};

// Stages, shards of layers, parts of samples or several of these, which others may share the batch of; and experts
// that these share out.
template <class Pick>
std::string any_layout(int world, const Pick& pick) {
  if (world % 2 != 0) return "pp=" + std::to_string(world);
  const auto ways = std::to_string(world / 2);
  if (world == 4) {
    const std::array four = {"pp=2,tp=2", "cp=2,tp=2", "pp=2,cp=2,ep=2", "dp=4,ep=2", "dp=2,tp=2,ep=2"};
    if (const auto drawn = static_cast<size_t>(pick(8)); drawn < four.size()) return four[drawn];
  }
  const std::array two = {"pp=2,dp=", "tp=2,dp=", "cp=2,dp=", "ep=2,cp=2,dp="};
  return two[static_cast<size_t>(pick(4))] + ways;
}

int train_faults_to_try() {
  const char* told = std::getenv("HYPERION_TRAIN_FAULTS");
  return told == nullptr ? static_cast<int>(kKinds.size()) : std::atoi(told);
}

// Processes that have the text in their environment, as far as it can be read.
int ranks_with(const std::string& text) {
  int count = 0;
  for (const auto& entry : fs::directory_iterator("/proc"))
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string()[0])) != 0)
      count += read_file(entry.path() / "environ").find(text) != std::string::npos ? 1 : 0;
  return count;
}

bool is_listened_on(int port) {
  std::istringstream lines(read_file("/proc/net/tcp"));
  std::string line;
  char wanted[16];
  std::snprintf(wanted, sizeof wanted, ":%04X ", static_cast<unsigned>(port));
  while (std::getline(lines, line))
    if (line.find(wanted) != line.npos && line.find(" 0A ") != line.npos && line.find(wanted) < line.find(" 0A "))
      return true;
  return false;
}

fs::path recipe(const Scratch& scratch, bool mixture) {
  const fs::path path = testing::tiny_recipe(scratch);
  if (mixture)
    testing::write_file(path, std::regex_replace(read_file(path), std::regex("dropout = 0.1"),
                                                 "preset = \"mixtral-tiny\"\nexperts = 4"));
  std::ofstream(path, std::ios::app) << "[parallel]\ntimeout = " << kTimeout << "\n";
  return path;
}

// In every survivor's words: the culprit, and a collective or the meeting in which it was missed; or that this rank
// missed nobody, where it computed.
std::string what_is_unsaid(const std::string& said, int culprit) {
  const std::regex named("rank ([0-9]+, )*" + std::to_string(culprit) + "\\b"),
      operation(
          "all_gather|all_reduce|reduce_scatter|all_to_all|broadcast|barrier|send|receive|meeting|joining|waited "
          "for rank|waited for nobody");
  return std::string(std::regex_search(said, named) ? "" : "culprit") +
         (std::regex_search(said, operation) ? "" : " operation");
}

Outcome run(const Trial& trial) {
  Scratch scratch;
  const fs::path logs = scratch.path() / "logs";
  const std::string mark = "HYPERION_TEST_MARK=" + scratch.path().string();
  const std::string call = trial.kind.of_call.empty() ? ""
                                                      : "export HYPERION_FAULTS=comm.ask=" + trial.kind.of_call + "@" +
                                                            std::to_string(trial.call) + ";";
  const std::string script =
      "if [ $RANK = " + std::to_string(trial.culprit) + " ]; then AFTER=" + std::to_string(trial.after) + ";" +
      trial.kind.of_shell + call + " fi; exec " + testing::program() + " train " +
      recipe(scratch, trial.layout.find("ep=") != std::string::npos).string() +
      " --run faulty --device cpu --steps 1000000 --train.batch=24 --parallel.check_calls=" +
      (trial.checked ? "true" : "false") + " --zero " + std::to_string(trial.zero) +
      (trial.layout.empty() ? "" : " --model.layers=3 --train.accumulate=4 --parallel " + trial.layout);
  const auto start = std::chrono::steady_clock::now();
  testing::Program job(scratch,
                       {"launch", "-n", std::to_string(trial.world), "--frozen-seconds", "8", "--logs", logs.string(),
                        "--", "sh", "-c", script},
                       {{"HYPERION_TEST_MARK", scratch.path().string()}, {"OMP_NUM_THREADS", "1"}});
  const bool ended = job.ends_within(kGivenUp);
  if (!ended) job.signal(SIGKILL);
  const auto done = job.wait();
  Outcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto complain = [&](const std::string& what) { outcome.wrong += (outcome.wrong.empty() ? "" : "; ") + what; };
  if (!ended) complain("it hung");
  if (done.code == 0) complain("the job ended well");
  const std::string culprit = "rank " + std::to_string(trial.culprit);
  if (done.err.find(culprit) == done.err.npos) complain("the launcher does not name it: " + done.err);
  const std::string first = read_file(logs / "rank-0.err");
  const bool met_all = first.find("processes over gloo") != first.npos;
  for (int rank = 0; rank < trial.world; ++rank) {
    if (rank == trial.culprit) continue;
    const std::string said = read_file(logs / ("rank-" + std::to_string(rank) + ".err"));
    // Before all have met, some are not waiting for anyone yet and have nothing to tell.
    if (!met_all && (said.empty() || said.find("stopped while starting") != said.npos)) continue;
    if (const auto unsaid = what_is_unsaid(said, trial.culprit); !unsaid.empty())
      complain(base::format("rank {} does not tell: {} ({})", rank, unsaid, said));
  }
  for (int wait = 0; wait < 300 && ranks_with(mark) > 0; ++wait)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (const int left = ranks_with(mark); left > 0) complain(std::to_string(left) + " processes are left");
  std::smatch met;
  if (std::regex_search(first, met, std::regex("meet at 127.0.0.1:([0-9]+)")) && is_listened_on(std::stoi(met[1])))
    complain("port " + met[1].str() + " is still open");
  return outcome;
}

TEST(TrainFaults, at_any_moment_are_named_by_every_other_rank_in_time_and_leave_nothing) {
  std::mt19937 random(static_cast<unsigned>(testing::seed()));
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  struct Row {
    int tried = 0, right = 0;
    double slowest = 0;
  };
  std::vector<Row> rows(kKinds.size());
  const int faults = train_faults_to_try();
  std::printf("%d faults, seed %lu\n", faults, static_cast<unsigned long>(testing::seed()));
  for (int i = 0; i < faults; ++i) {
    const size_t which = static_cast<size_t>(i) % kKinds.size();
    Trial trial{kKinds[which], 2 + pick(3), 0, pick(4), 1 + pick(120), 0.05 + pick(200) * 0.01, false};
    if (faults >= 50 && pick(10) == 0) trial.world = 8, trial.layout = "pp=2,tp=2,dp=2", trial.zero = pick(4);
    if (faults >= 50 && pick(20) == 0)
      trial.world = 16, trial.layout = "pp=2,dp=2,cp=2,tp=2,ep=2", trial.zero = pick(4);
    trial.culprit = pick(trial.world);
    trial.checked = pick(2) == 0 || kKinds[which].name.starts_with("asks");
    if (trial.layout.empty() && pick(2) == 0) trial.layout = any_layout(trial.world, pick);
    SCOPED_TRACE(trial.text() + ", fault " + std::to_string(i + 1));
    const Outcome outcome = run(trial);
    const bool in_time = outcome.seconds < kInTime + trial.after;
    std::printf("%3d/%d  %-58s %5.1f s  %s\n", i + 1, faults, trial.text().c_str(), outcome.seconds,
                outcome.wrong.empty() ? "named" : outcome.wrong.c_str());
    std::fflush(stdout);
    EXPECT_TRUE(in_time) << outcome.seconds;
    EXPECT_EQ(outcome.wrong, "");
    Row& row = rows[which];
    ++row.tried, row.right += in_time && outcome.wrong.empty() ? 1 : 0;
    row.slowest = std::max(row.slowest, outcome.seconds);
  }
  std::printf("\n%-28s %6s  %s  %s\n", "kind", "faults", "named by all, in time, nothing left", "slowest job");
  for (size_t i = 0; i < rows.size(); ++i)
    std::printf("%-28s %6d  %35d  %9.1f s\n", kKinds[i].name.c_str(), rows[i].tried, rows[i].right, rows[i].slowest);
}

// Before the first step ranks compare what they read, and agree on their wires.
TEST(TrainFaults, of_calls_before_the_first_step_are_named_too) {
  const auto asks = std::find_if(kKinds.begin(), kKinds.end(), [](const auto& k) { return k.name.ends_with("type"); });
  for (const int call : {1, 2, 4, 6, 8, 9}) {
    const Trial trial{*asks, 2, 1, 1, call, 0, true};
    EXPECT_EQ(run(trial).wrong, "") << trial.text();
  }
}

}  // namespace
}  // namespace hyperion
