#include "tests/multi_rank/support_cases.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "hyperion/strategy/layout.h"

namespace hyperion::testing {

bool on_gpu() {
  const char* device = std::getenv("HYPERION_TEST_DEVICE");
  return device != nullptr && std::string(device).starts_with("cuda");
}

Outcomes train(int ranks, const Cases& cases, const Environment& environment) {
  Cases command{HYPERION_WORKER};
  command.insert(command.end(), cases.begin(), cases.end());
  const auto results = Ranks(ranks, command, environment).wait(550);
  for (size_t rank = 0; rank < results.size(); ++rank)
    EXPECT_EQ(results[rank].code, 0) << "rank " << rank << ": " << results[rank].err;
  Outcomes outcomes;
  std::istringstream lines(results[0].out);
  for (std::string line; std::getline(lines, line);) {
    auto outcome = json::parse(line);
    outcomes[outcome["case"]] = outcome;
  }
  EXPECT_EQ(outcomes.size(), std::set(cases.begin(), cases.end()).size());
  return outcomes;
}

std::string alone(const std::string& text, int ranks) {
  std::istringstream words(text);
  std::string out, word;
  int64_t accumulate = 1;
  strategy::Layout layout{.dp_shard = ranks};
  bool sync = false;
  words >> out;
  while (words >> word) {
    const std::string key = word.substr(0, word.find('='));
    if (key == "accumulate") accumulate = std::stoll(word.substr(11));
    if (key == "sync") sync = true;
    if (key == "layout" && word.find("p=", 7) != word.npos) layout = strategy::parse_layout(word.substr(7));
    const std::set<std::string> same{"masked", "packed", "inner",  "lr",        "clip",  "rule",  "precision", "steps",
                                     "seed",   "batch",  "layers", "recompute", "heads", "width", "keys",      "drops"};
    if (same.count(key) != 0) out += " " + word;
  }
  return out + " accumulate=" + std::to_string(sync ? accumulate : accumulate * layout.dp());
}

}  // namespace hyperion::testing
