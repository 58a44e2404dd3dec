#include "hyperion/profile/timing.h"

#include <gtest/gtest.h>

namespace hyperion::profile {
namespace {

TEST(Timing, quantiles_lie_between_neighbours) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({10, 0}, 0.1), 1);
  EXPECT_DOUBLE_EQ(quantile({7}, 0.9), 7);
  EXPECT_DOUBLE_EQ(quantile({1, 2, 3}, 1), 3);
}

TEST(Timing, spread_is_not_moved_by_one_outlier) {
  std::vector<double> samples(20, 1.0);
  samples.push_back(100);
  const Spread spread = spread_of(samples);
  EXPECT_DOUBLE_EQ(spread.median, 1);
  EXPECT_DOUBLE_EQ(spread.low, 1);
  EXPECT_DOUBLE_EQ(spread.high, 1);
  EXPECT_EQ(spread.repeats, 21);
}

TEST(Timing, spends_its_budget_on_repeats_after_a_warm_up) {
  double all = 0;
  const Spread spread = repeat([&](int64_t calls) { return all += 0.1 * calls, 0.1 * calls; }, {.seconds = 2});
  EXPECT_NEAR(spread.median, 0.1, 1e-12);
  EXPECT_NEAR(static_cast<double>(spread.repeats), 20, 1);
  EXPECT_GT(all, 2.4);
}

TEST(Timing, first_calls_do_not_count) {
  int64_t blocks = 0;
  const Spread spread = repeat([&](int64_t calls) { return (blocks++ == 0 ? 50.0 : 0.1) * calls; }, {.seconds = 1});
  EXPECT_NEAR(spread.high, 0.1, 1e-12);
}

TEST(Timing, short_work_is_timed_in_blocks) {
  int64_t most = 0;
  const auto block = [&](int64_t calls) { return most = std::max(most, calls), 1e-5 * calls; };
  const Spread spread = repeat(block, {.seconds = 0.1, .block_seconds = 0.01});
  EXPECT_EQ(most, 1000);
  EXPECT_NEAR(spread.median, 1e-5, 1e-12);
}

TEST(Timing, repeats_at_least_three_times_within_reach_of_the_budget) {
  EXPECT_EQ(repeat([](int64_t calls) { return 0.9 * calls; }, {.seconds = 1}).repeats, 3);
}

TEST(Timing, a_call_longer_than_the_budget_is_measured_once) {
  int64_t calls_made = 0;
  const Spread spread = repeat([&](int64_t calls) { return calls_made += calls, 5.0 * calls; }, {.seconds = 1});
  EXPECT_EQ(spread.repeats, 1);
  EXPECT_EQ(calls_made, 2);
}

TEST(Timing, a_timer_that_says_zero_still_gives_finite_figures) {
  EXPECT_GT(repeat([](int64_t) { return 0.0; }, {.seconds = 1e-6}).median, 0);
}

}  // namespace
}  // namespace hyperion::profile
