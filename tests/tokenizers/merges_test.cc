#include "hyperion/tokenizers/merges.h"

#include <gtest/gtest.h>

#include <random>

namespace hyperion::tokenizers {
namespace {

// Merges as they are defined, one look at everything for each.
std::vector<int32_t> merged_plainly(const MergeTable& table, std::vector<int32_t> symbols) {
  for (;;) {
    MergeTable::Merge best;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i)
      if (const auto merge = table.find(symbols[i], symbols[i + 1]); merge.rank < best.rank) {
        best = merge;
        at = i;
      }
    if (best.rank == MergeTable::kNone) return symbols;
    symbols[at] = best.id;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

MergeTable random_table(std::mt19937& random, int32_t letters, int32_t merges) {
  MergeTable table(merges);
  for (int32_t i = 0; i < merges; ++i) {
    const auto some = [&] { return static_cast<int32_t>(random() % (letters + i)); };
    table.add(some(), some(), {static_cast<int32_t>(random() % 1000), letters + i});
  }
  return table;
}

TEST(Merges, short_and_long_runs_give_what_the_definition_gives) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    const int32_t letters = 1 + trial % 4;
    const auto table = random_table(random, letters, 40);
    std::vector<int32_t> symbols(random() % 90);
    for (auto& symbol : symbols) symbol = static_cast<int32_t>(random() % letters);
    const auto expected = merged_plainly(table, symbols);
    auto by_short = symbols, by_long = symbols;
    by_short.resize(table.merge_short(by_short));
    by_long.resize(table.merge_long(by_long));
    ASSERT_EQ(by_short, expected);
    ASSERT_EQ(by_long, expected);
  }
}

TEST(Merges, a_million_equal_symbols_pair_up_from_the_left) {
  MergeTable table(2);
  table.add(0, 0, {0, 1});
  table.add(1, 1, {1, 2});
  std::vector<int32_t> symbols(1'000'003, 0);
  symbols.resize(table.merge(symbols));
  ASSERT_EQ(symbols.size(), 250'002u);
  EXPECT_EQ(symbols.front(), 2);
  EXPECT_EQ(symbols[250'000], 1);
  EXPECT_EQ(symbols.back(), 0);
}

TEST(Merges, the_first_rank_of_a_pair_stays) {
  MergeTable table(2);
  table.add(3, 4, {7, 5});
  table.add(3, 4, {2, 6});
  EXPECT_EQ(table.find(3, 4).id, 5);
  EXPECT_EQ(table.find(4, 3).rank, MergeTable::kNone);
}

}  // namespace
}  // namespace hyperion::tokenizers
