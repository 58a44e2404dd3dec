#include "tests/multi_rank/support_cases.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <sstream>

#include "hyperion/base/format.h"
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
    const std::set<std::string> same{"masked", "packed", "inner",  "lr",     "clip",      "rule",  "precision",
                                     "steps",  "seed",   "batch",  "layers", "recompute", "heads", "width",
                                     "keys",   "drops",  "length", "scale",  "capacity"};
    if (same.count(key) != 0) out += " " + word;
  }
  return out + " accumulate=" + std::to_string(sync ? accumulate : accumulate * layout.dp());
}

namespace {

Cases of_every_family(const Cases& layouts) {
  Cases cases;
  for (const std::string family : {"gpt2 heads=4", "llama heads=4 keys=2 masked=1", "qwen2 heads=4",
                                   "moe heads=4 seed=3", "qwen_moe heads=4 seed=3", "vit heads=4 drops=1",
                                   "lora heads=4 drops=1", "qlora heads=4 width=256 inner=512 drops=1"})
    for (const auto& layout : layouts) {
      const bool patches = family.starts_with("vit") && layout.find("sequence") != layout.npos;  // 17 cannot be cut
      if (!patches) cases.push_back(base::format("{} layout={}", family, layout));
    }
  return cases;
}

}  // namespace

Cases all_layouts(int ranks) {
  const Cases of_two{"tp=2", "tp=2 sequence=1", "pp=2 accumulate=4", "pp=2 accumulate=4 schedule=gpipe",
                     "pp=2 accumulate=4 layers=4 schedule=interleaved chunks=2"};
  const Cases of_four{"tp=4",
                      "tp=4 sequence=1",
                      "pp=4 accumulate=4 layers=4",
                      "pp=4 accumulate=4 layers=4 schedule=gpipe",
                      "pp=4 accumulate=4 layers=8 schedule=interleaved chunks=2",
                      "tp=2,dp=2 zero=0 accumulate=2",
                      "tp=2,dp=2 zero=1 sequence=1",
                      "tp=2,dp=2 zero=2 accumulate=2",
                      "tp=2,dp=2 zero=3 sequence=1 recompute=full",
                      "pp=2,tp=2 accumulate=2",
                      "pp=2,tp=2 accumulate=4 sequence=1 schedule=gpipe",
                      "pp=2,tp=2 accumulate=2 layers=4 schedule=interleaved chunks=2"};
  const Cases of_eight{"pp=2,tp=2,dp=2 zero=1 accumulate=2 sequence=1", "pp=2,tp=2,dp=2 zero=3 accumulate=2"};
  return of_every_family(ranks == 2 ? of_two : ranks == 4 ? of_four : of_eight);
}

Cases layouts_with_divided_backwards(int ranks) {
  const Cases of_two{"pp=2 accumulate=4 schedule=zb-h1", "pp=2 accumulate=4 layers=4 schedule=zbv",
                     "pp=2 accumulate=4 layers=4 schedule=dualpipev",
                     "pp=2 accumulate=3 layers=4 recompute=full schedule=zbv"};
  const Cases of_four{"pp=4 accumulate=4 layers=4 schedule=zb-h1",
                      "pp=4 accumulate=4 layers=8 schedule=zbv",
                      "pp=4 accumulate=8 layers=8 schedule=dualpipev",
                      "pp=2,dp=2 zero=0 accumulate=4 layers=4 recompute=full schedule=dualpipev",
                      "pp=2,dp=2 zero=1 accumulate=4 layers=4 schedule=zbv",
                      "pp=2,tp=2 accumulate=2 schedule=zb-h1"};
  return of_every_family(ranks == 2 ? of_two : of_four);
}

}  // namespace hyperion::testing
