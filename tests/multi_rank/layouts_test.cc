// A checkpoint is saved in one layout and loaded in another: gathered weights and optimizer state are the same to the
// bit, each byte is read once by all processes together, and training goes on alike. HYPERION_LAYOUT_PAIRS=all: each of
// ten layouts into each of the others (script/test-checkpoints); else each into two others, so that each axis is
// entered and left.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/difference.h"
#include "tests/multi_rank/support_outcomes.h"

namespace hyperion::testing {
namespace {

using base::format;

struct Layout {
  int ranks;
  const char* settings;
};
// All compute the batch of 24 in parts of 6: what a mixture balances is the same.
const std::vector<Layout> kLayouts{{1, "accumulate=4"},
                                   {2, "layout=dp=2 accumulate=2"},
                                   {2, "layout=dp=2 zero=2 accumulate=2"},
                                   {4, "layout=dp=4 zero=3"},
                                   {4, "layout=dp=2x2 zero=3"},
                                   {2, "layout=tp=2 accumulate=4 sequence=1"},
                                   {2, "layout=pp=2 accumulate=4"},
                                   {2, "layout=cp=2 accumulate=4"},
                                   {4, "layout=pp=2,tp=2 accumulate=4"},
                                   {4, "layout=dp=4,ep=2 zero=1"}};

class Layouts : public ::testing::Test {
 protected:
  Layouts() : folder_(format("{}/layouts-{}", std::filesystem::temp_directory_path().string(), getpid())) {}
  ~Layouts() override { std::filesystem::remove_all(folder_); }

  std::string saved(size_t layout) const { return format("{}/{}", folder_, layout); }
  std::string again(size_t from, size_t into) const { return format("{}/{}-{}", folder_, from, into); }
  std::string loading(size_t from, size_t into) const {
    return format("{} {} steps=5 load={} resave={}", kModel, kLayouts[into].settings, saved(from), again(from, into));
  }

  static checkpoint::TensorSet tensors(const std::string& folder) {
    return checkpoint::tensors_of(checkpoint::open_newest(base::real_files(), folder));
  }

  static constexpr const char* kModel = "moe heads=4 seed=3";
  std::string folder_;
};

TEST_F(Layouts, any_checkpoint_is_loaded_in_any_other_to_the_bit) {
  const size_t count = kLayouts.size();
  const char* pairs = std::getenv("HYPERION_LAYOUT_PAIRS");
  const bool all = pairs != nullptr && std::string(pairs) == "all";
  std::map<int, Cases> saves, loads;  // by ranks: those of as many are done by the same processes
  for (size_t i = 0; i < count; ++i)
    saves[kLayouts[i].ranks].push_back(format("{} {} steps=2 save={}", kModel, kLayouts[i].settings, saved(i)));
  for (const auto& [ranks, cases] : saves) train(ranks, cases);
  const auto wanted = [&](size_t from, size_t into) {
    const size_t ahead = (into + count - from) % count;
    return from != into && (all || ahead == 1 || ahead == 4);
  };
  // Each checkpoint is also loaded by one process: what its losses must be.
  for (size_t from = 0; from < count; ++from)
    for (size_t into = 0; into < count; ++into)
      if (wanted(from, into) || into == 0) loads[kLayouts[into].ranks].push_back(loading(from, into));
  Outcomes outcomes;
  for (const auto& [ranks, cases] : loads)
    for (auto& [text, outcome] : train(ranks, cases)) outcomes[text] = std::move(outcome);
  int seen = 0;
  for (size_t from = 0; from < count; ++from) {
    const auto whole = tensors(saved(from));
    const auto& expected = outcomes.at(loading(from, 0));
    for (size_t into = 0; into < count; ++into) {
      if (!wanted(from, into)) continue;
      const auto text = format("{} -> {}", kLayouts[from].settings, kLayouts[into].settings);
      const auto& found = outcomes.at(loading(from, into));
      const auto differ = checkpoint::differences(whole, tensors(again(from, into)));
      EXPECT_EQ(differ.size(), 0u) << text << ": " << (differ.empty() ? "" : differ[0].name + " " + differ[0].mismatch);
      EXPECT_EQ(found.at("read").get<uint64_t>(), whole.bytes()) << text << ": each byte once";
      const double off = distance(found.at("losses"), expected.at("losses"));
      EXPECT_LT(off, 1e-4) << text;
      std::printf("%-40s -> %-40s  %zu tensors the same, each byte read once, losses to %.0e\n",
                  kLayouts[from].settings, kLayouts[into].settings, whole.tensors.size(), off);
      ++seen;
    }
  }
  EXPECT_EQ(seen, all ? 90 : 20);
}

}  // namespace
}  // namespace hyperion::testing
