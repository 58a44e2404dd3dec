#include "hyperion/analysis/roofline.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace hyperion::analysis {
namespace {

constexpr auto kForward = static_cast<size_t>(Phase::forward), kBackward = static_cast<size_t>(Phase::backward);

// Two steps: two blocks of 10 and 20 ms a step forward and backward, a head of 5 and 5, 4 of communication, 6 idle.
LayerTimes made_times() {
  LayerTimes times;
  times.steps = 2;
  for (const char* name : {"h.0", "h.1"}) {
    LayerRow row{name, true, {}};
    row.times[kForward] = int64_t{2} * 10'000'000, row.times[kBackward] = int64_t{2} * 20'000'000;
    times.rows.push_back(row);
  }
  LayerRow head{kOutsideBlocks, false, {}};
  head.times[kForward] = head.times[kBackward] = int64_t{2} * 5'000'000;
  times.rows.push_back(head);
  times.rows.push_back({"communication", false, {int64_t{2} * 4'000'000}});
  times.idle = int64_t{2} * 6'000'000;
  return times;
}

// Blocks: 1 and 2 TFLOP; the head moves 4 GB for 0.01 TFLOP.
PhaseWork made_work(const std::string& name) {
  PhaseWork work{};
  if (name.starts_with("h.")) work[kForward] = {1e12, 1e9}, work[kBackward] = {2e12, 2e9};
  if (name == kOutsideBlocks) work[kForward] = work[kBackward] = {1e10, 4e9};
  return work;
}

TEST(Roofline, holds_what_was_measured_against_what_bounds_it) {
  const auto found = roofline({made_times()}, made_work, {200, 1000}, "a machine");
  EXPECT_DOUBLE_EQ(found.step_ms, 80);
  EXPECT_DOUBLE_EQ(found.idle_ms, 6);
  EXPECT_DOUBLE_EQ(found.communication_ms, 4);
  EXPECT_NEAR(found.elsewhere_ms, 10, 1e-9);
  ASSERT_EQ(found.rows.size(), 6U);
  const auto& block = found.rows[1];
  EXPECT_EQ(block.name, "h.0");
  EXPECT_EQ(block.phase, Phase::backward);
  EXPECT_DOUBLE_EQ(block.tflops(), 100);
  EXPECT_DOUBLE_EQ(block.intensity(), 1000);
  EXPECT_FALSE(block.by_memory(found.ceiling));
  EXPECT_DOUBLE_EQ(block.least_ms(found.ceiling), 10);
  EXPECT_DOUBLE_EQ(block.percent(found.ceiling), 50);
  const auto& head = found.rows[4];
  EXPECT_EQ(head.name, kOutsideBlocks);
  EXPECT_TRUE(head.by_memory(found.ceiling));
  EXPECT_DOUBLE_EQ(head.least_ms(found.ceiling), 4);
  EXPECT_DOUBLE_EQ(head.percent(found.ceiling), 80);
}

TEST(Roofline, is_the_mean_of_ranks) {
  auto slow = made_times();
  slow.rank = 1;
  for (auto& row : slow.rows)
    for (auto& time : row.times) time *= 3;
  const auto found = roofline({made_times(), slow}, made_work, {200, 1000}, "a machine");
  EXPECT_DOUBLE_EQ(found.rows[0].ms, 20);
  EXPECT_DOUBLE_EQ(found.step_ms, (80 + 3 * 74 + 6) / 2.0);
}

TEST(Roofline, says_what_costs_most_first) {
  const auto advice = roofline_advice(roofline({made_times()}, made_work, {200, 1000}, "a machine"));
  ASSERT_GE(advice.size(), 3U);
  EXPECT_NE(advice[0].find("backward of the blocks runs at 50% of the ceiling"), std::string::npos) << advice[0];
  EXPECT_NE(advice[0].find("25.0% of a step"), std::string::npos) << advice[0];
  EXPECT_NE(advice[1].find("forward of the blocks"), std::string::npos) << advice[1];
  bool idle = false;
  for (const auto& text : advice) idle = idle || text.find("7.5% of a step nothing is recorded") != std::string::npos;
  EXPECT_TRUE(idle);
}

TEST(Roofline, without_a_ceiling_tells_rates_alone) {
  const auto found = roofline({made_times()}, made_work, {}, "a machine");
  EXPECT_EQ(found.rows[0].least_ms(found.ceiling), 0);
  const auto tables = roofline_tables(found, 20);
  EXPECT_NE(tables[0].title.find("peak not known"), std::string::npos);
  EXPECT_EQ(tables[0].rows[1].back(), "-");
  EXPECT_TRUE(roofline_json(found).at("peak_tflops").is_null());
}

TEST(Roofline, of_many_blocks_tells_their_sums) {
  const auto found = roofline({made_times()}, made_work, {200, 1000}, "a machine");
  const auto each = roofline_tables(found, 6)[0].rows, sums = roofline_tables(found, 5)[0].rows;
  EXPECT_EQ(each.size(), 1U + 4 + 4);
  ASSERT_EQ(sums.size(), 1U + 4);
  EXPECT_EQ(sums[1][0], "all blocks");
  EXPECT_EQ(sums[1][2], "20.000");
}

}  // namespace
}  // namespace hyperion::analysis
