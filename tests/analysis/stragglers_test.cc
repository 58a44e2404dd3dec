#include "hyperion/analysis/stragglers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace hyperion::analysis {
namespace {

// Ranks in step: each is in communication until the last of them has come. Microseconds of ten steps.
std::vector<RankAnalysis> job(const std::vector<int64_t>& compute, const std::vector<int64_t>& idle) {
  int64_t last = 0;
  for (size_t i = 0; i < compute.size(); ++i) last = std::max(last, compute[i] + idle[i]);
  std::vector<RankAnalysis> ranks(compute.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    auto& [path, rank, events, device_events, steps, left_out, times, by_cause, all_idle, kernels, operators] =
        ranks[i];
    rank = static_cast<int64_t>(i);
    steps = 10;
    times.compute = compute[i] * 10'000;
    times.idle = idle[i] * 10'000;
    times.communication = (last - compute[i] - idle[i] + 50) * 10'000;
    times.total = (last + 50) * 10'000;
  }
  return ranks;
}

TEST(Stragglers, the_rank_that_computes_longer_is_named) {
  std::mt19937 random(4);
  for (int round = 0; round < 100; ++round) {
    const size_t count = 2 + random() % 7, slow = random() % count;
    std::vector<int64_t> compute, idle;
    for (size_t i = 0; i < count; ++i) compute.push_back(990 + static_cast<int64_t>(random() % 20)), idle.push_back(10);
    compute[slow] = 1100;
    const auto found = find_straggler(job(compute, idle));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->rank, static_cast<int64_t>(slow));
    EXPECT_EQ(found->because, Lateness::compute);
    EXPECT_NEAR(found->waited, 100, 11);
  }
}

TEST(Stragglers, a_late_host_is_told_from_slow_kernels) {
  const auto found = find_straggler(job({1000, 1000, 1000}, {10, 200, 10}));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->because, Lateness::idle);
  EXPECT_NEAR(found->more, 190, 1e-9);
  EXPECT_NE(straggler_text(*found).find("its input"), std::string::npos);
  EXPECT_EQ(straggler_json(found)["because"], "idle");
}

TEST(Stragglers, ranks_in_step_have_none) {
  EXPECT_FALSE(find_straggler(job({1000, 1005, 1002}, {10, 10, 10})).has_value());
  EXPECT_FALSE(find_straggler(job({1000}, {10})).has_value());
  EXPECT_FALSE(find_straggler({}).has_value());
  EXPECT_FALSE(find_straggler(std::vector<RankAnalysis>(3)).has_value());  // without communication
  EXPECT_TRUE(straggler_json(std::nullopt).is_null());
}

}  // namespace
}  // namespace hyperion::analysis
