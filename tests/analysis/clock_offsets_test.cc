#include "hyperion/analysis/clock_offsets.h"

#include <gtest/gtest.h>

#include "tests/analysis/support_job.h"

namespace hyperion::analysis {
namespace {

// The largest error of any rank's offset against the planted ones, nanoseconds.
int64_t worst_error(const test::MadeJob& job) {
  const auto made = test::made_traces(job);
  std::vector<RankCollectives> ranks;
  for (const auto& trace : made.traces) ranks.push_back(collectives_of(trace));
  std::vector<const RankCollectives*> pointers;
  for (const auto& rank : ranks) pointers.push_back(&rank);
  const auto offsets = clock_offsets(pointers, match_collectives(pointers));
  int64_t worst = 0;
  for (size_t r = 0; r < offsets.size(); ++r) {
    EXPECT_TRUE(offsets[r].known);
    worst = std::max(worst, std::abs(offsets[r].nanoseconds - (job.clocks[r] - job.clocks[0])));
  }
  return worst;
}

std::vector<int64_t> clocks(unsigned seed, int ranks) {
  std::mt19937 random(seed);
  std::vector<int64_t> all;
  for (int i = 0; i < ranks; ++i) all.push_back(static_cast<int64_t>(random() % 100'000'001) - 50'000'000);
  return all;
}

int64_t worst_of_seeds(test::MadeJob job) {
  int64_t worst = 0;
  for (job.seed = 1; job.seed <= 100; ++job.seed) {
    job.clocks = clocks(job.seed, job.ranks);
    worst = std::max(worst, worst_error(job));
  }
  return worst;
}

TEST(ClockOffsets, of_two_ranks_are_found_to_100_us) {
  const auto worst = worst_of_seeds({.ranks = 2, .end_jitter = 100'000});
  ::testing::Test::RecordProperty("worst_ns", static_cast<int>(worst));
  std::printf("2 ranks, ends 100 us late: worst of 100 seeds %ld ns\n", static_cast<long>(worst));
  EXPECT_LT(worst, 100'000);
}

TEST(ClockOffsets, of_eight_ranks_are_found_to_1_ms) {
  const auto worst = worst_of_seeds({.ranks = 8, .end_jitter = 200'000});
  std::printf("8 ranks, ends 200 us late: worst of 100 seeds %ld ns\n", static_cast<long>(worst));
  EXPECT_LT(worst, 1'000'000);
}

TEST(ClockOffsets, lead_over_groups_that_overlap_in_part) {
  const auto worst = worst_of_seeds({.ranks = 8, .end_jitter = 50'000, .tensor_groups = true});
  std::printf("8 ranks in a chain of pairs, ends 50 us late: worst of 100 seeds %ld ns\n", static_cast<long>(worst));
  EXPECT_LT(worst, 1'000'000);
}

TEST(ClockOffsets, of_ranks_that_share_no_collective_are_not_known) {
  const auto a = test::made_traces({.ranks = 1}), b = test::made_traces({.ranks = 1, .layers = 2});
  const auto first = collectives_of(a.traces[0]);
  RankCollectives second = collectives_of(b.traces[0]);
  for (auto& group : second.groups) group.key += " of others";
  const auto offsets = clock_offsets({&first, &second}, match_collectives({&first, &second}));
  EXPECT_TRUE(offsets[0].known);
  EXPECT_FALSE(offsets[1].known);
}

}  // namespace
}  // namespace hyperion::analysis
