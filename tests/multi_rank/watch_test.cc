// What holds a job up is named, with its cause, and where nothing does nothing is. Real processes; script/test-watch
// runs what takes cores that do nothing else, with as many trials as docs/traces.md tells of.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hyperion/base/format.h"
#include "tests/multi_rank/support_launch.h"

namespace hyperion::testing {
namespace {

using nlohmann::json;

int trials() {
  const char* asked = std::getenv("HYPERION_WATCH_TRIALS");
  return asked != nullptr ? std::atoi(asked) : 100;
}

std::vector<json> outcomes(int ranks, const std::vector<std::string>& words) {
  std::vector<std::string> command{HYPERION_WATCH_WORKER};
  command.insert(command.end(), words.begin(), words.end());
  const auto results = Ranks(ranks, command, {}).wait(3600);
  std::vector<json> list;
  std::istringstream lines(results[0].out);
  for (std::string line; std::getline(lines, line);) list.push_back(json::parse(line));
  for (const auto& result : results) EXPECT_EQ(result.code, 0) << result.err;
  return list;
}

struct Score {
  int trials = 0, named = 0, right = 0;  // the rank, and with its cause first
};

// Each planted fault is named within 20 steps: the rank in 95 of 100 trials, with the right cause in 90.
void expect_named(int ranks, const char* work, const std::vector<std::string>& causes) {
  std::vector<std::string> words{work, "1", "1", std::to_string(trials())};
  words.insert(words.end(), causes.begin(), causes.end());
  std::map<std::string, Score> scores;
  std::map<std::string, std::string> missed;
  for (const auto& trial : outcomes(ranks, words)) {
    auto& score = scores[trial["cause"]];
    ++score.trials;
    bool rank = false;
    for (const auto& named : trial["named"]) rank = rank || named["rank"] == trial["rank"] || ranks == 2;
    score.named += rank;
    const bool right = !trial["named"].empty() && trial["named"][0]["cause"] == trial["cause"];
    score.right += rank && right;
    if (!rank || !right) missed[trial["cause"]] += trial.dump() + "\n";
  }
  for (const auto& cause : causes) {
    const auto& score = scores[cause];
    std::printf("%d ranks, %s, %-8s rank named in %d of %d, cause right in %d\n", ranks, work, cause.c_str(),
                score.named, score.trials, score.right);
    EXPECT_EQ(score.trials, trials());
    EXPECT_GE(score.named * 100, 95 * score.trials) << missed[cause];
    EXPECT_GE(score.right * 100, 90 * score.trials) << missed[cause];
  }
}

void expect_quiet(int ranks, const char* work) {
  const std::string steps = "10000";
  for (const auto& trial : outcomes(ranks, {work, "1", "1", steps, "clean"})) {
    std::printf("%d ranks, %s, %s clean steps: %zu alarms\n", ranks, work, steps.c_str(), trial["named"].size());
    EXPECT_TRUE(trial["named"].empty()) << trial.dump();
  }
}

TEST(Watch, names_what_holds_eight_ranks_far_up) {
  for (const auto& trial : outcomes(8, {"sleep", "10", "1", "1", "compute", "input", "stopped"})) {
    bool right = false;
    for (const auto& named : trial["named"])
      right = right || (named["rank"] == trial["rank"] && named["cause"] == trial["cause"]);
    EXPECT_TRUE(right) << trial.dump();
  }
}

TEST(Watch, DISABLED_names_what_holds_eight_ranks_up) {
  expect_named(8, "sleep", {"compute", "input", "links", "stopped"});
}
TEST(Watch, DISABLED_names_what_holds_two_ranks_that_compute_up) {
  expect_named(2, "compute", {"compute", "input", "stopped"});
}
TEST(Watch, DISABLED_names_nothing_where_eight_ranks_sleep) { expect_quiet(8, "sleep"); }
TEST(Watch, DISABLED_names_nothing_where_two_ranks_compute) { expect_quiet(2, "compute"); }

}  // namespace
}  // namespace hyperion::testing
