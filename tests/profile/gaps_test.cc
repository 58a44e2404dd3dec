#include "hyperion/profile/gaps.h"

#include <gtest/gtest.h>

namespace hyperion::profile {
namespace {

constexpr int64_t kUs = 1000;

TEST(Gaps, counts_idle_time_as_part_of_the_window) {
  const auto gaps = gaps_between({{"a", 0, 40 * kUs}, {"b", 50 * kUs, 98 * kUs}, {"c", 100 * kUs, 200 * kUs}});
  EXPECT_DOUBLE_EQ(gaps.window_ms, 0.2);
  EXPECT_DOUBLE_EQ(gaps.busy_ms, 0.188);
  EXPECT_DOUBLE_EQ(gaps.all_percent, 6);
  EXPECT_DOUBLE_EQ(gaps.long_percent, 5);  // the gap of 2 us is short
  EXPECT_EQ(gaps.count, 2);
  EXPECT_EQ(gaps.long_count, 1);
}

TEST(Gaps, work_on_another_stream_fills_a_gap) {
  const auto gaps =
      gaps_between({{"a", 0, 10 * kUs, 1}, {"long", 2 * kUs, 100 * kUs, 2}, {"b", 60 * kUs, 90 * kUs, 1}});
  EXPECT_DOUBLE_EQ(gaps.all_percent, 0);
  EXPECT_EQ(gaps.count, 0);
  EXPECT_DOUBLE_EQ(gaps.window_ms, 0.1);
}

TEST(Gaps, names_the_longest_and_what_they_lie_between) {
  const auto gaps =
      gaps_between({{"c", 300 * kUs, 310 * kUs}, {"a", 0, 10 * kUs}, {"b", 20 * kUs, 30 * kUs}});  // in any order
  ASSERT_EQ(gaps.longest.size(), 2u);
  EXPECT_EQ(gaps.longest[0].before, "b");
  EXPECT_EQ(gaps.longest[0].after, "c");
  EXPECT_EQ(gaps.longest[0].nanoseconds, 270 * kUs);
  EXPECT_EQ(gaps.longest[1].after, "b");
}

TEST(Gaps, at_most_ten_are_named_and_all_are_counted) {
  std::vector<TracedSpan> spans;
  for (int64_t i = 0; i < 100; ++i) spans.push_back({"k", i * 100 * kUs, i * 100 * kUs + (10 + i % 7) * kUs});
  const auto gaps = gaps_between(spans);
  EXPECT_EQ(gaps.long_count, 99);
  EXPECT_EQ(gaps.longest.size(), 10u);
  EXPECT_EQ(gaps.longest[0].nanoseconds, 90 * kUs);
}

TEST(Gaps, a_gap_just_at_the_threshold_is_short) {
  const auto gaps = gaps_between({{"a", 0, 7 * kUs}, {"b", 10 * kUs, 20 * kUs}}, 3);
  EXPECT_EQ(gaps.long_count, 0);
  EXPECT_EQ(gaps.count, 1);
}

TEST(Gaps, nothing_and_one_alone_have_none) {
  EXPECT_DOUBLE_EQ(gaps_between({}).all_percent, 0);
  const auto one = gaps_between({{"a", 5, 5}});
  EXPECT_DOUBLE_EQ(one.all_percent, 0);
  EXPECT_DOUBLE_EQ(one.window_ms, 0);
}

}  // namespace
}  // namespace hyperion::profile
