#include "hyperion/analysis/collectives.h"

#include <gtest/gtest.h>

#include "hyperion/analysis/matched_collectives.h"
#include "tests/analysis/support_job.h"

namespace hyperion::analysis {
namespace {

using trace::test::SmallTrace;

TEST(CollectiveKinds, are_told_from_kernels_calls_and_our_own_spans) {
  EXPECT_EQ(collective_kind("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"),
            CollectiveKind::all_reduce);
  EXPECT_EQ(collective_kind("_allgather_base"), CollectiveKind::all_gather);
  EXPECT_EQ(collective_kind("reduce_scatter_tensor_coalesced"), CollectiveKind::reduce_scatter);
  EXPECT_EQ(collective_kind("ncclKernel_SendRecv(ncclDevComm*)"), CollectiveKind::point_to_point);
  EXPECT_EQ(collective_kind("recv"), CollectiveKind::receive);
  EXPECT_EQ(collective_kind("gemm"), CollectiveKind::other);
}

TEST(CollectiveGroups, have_the_axis_of_the_layout) {
  EXPECT_EQ(axis_of_group("layers"), "tp");
  EXPECT_EQ(axis_of_group("gradients"), "dp");
  EXPECT_EQ(axis_of_group("mesh_cp"), "cp");
  EXPECT_EQ(axis_of_group("default_pg"), "");
}

// Spans of our own, each "all_reduce gradients" unless a group is said.
trace::Trace own_spans(int rank, const std::vector<int>& numbers, const std::string& group = "gradients") {
  SmallTrace small;
  small.facts().rank = rank;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto begin = static_cast<int64_t>(i) * 1000;
    small.add("user_annotation", "all_reduce gradients", "\"hyperion\"", "2", begin, begin + 500,
              group.empty()
                  ? ""
                  : base::format(R"("args": {{"group": "{}", "ranks": "0-1", "number": {}}})", group, numbers[i]));
  }
  return small.take();
}

JobCollectives matched(const trace::Trace& a, const trace::Trace& b) {
  const auto first = collectives_of(a), second = collectives_of(b);
  return match_collectives({&first, &second});
}

TEST(MatchedCollectives, are_found_by_their_numbers_where_recordings_begin_apart) {
  const auto job = matched(own_spans(0, {4, 5, 6}), own_spans(1, {5, 6, 7}));
  ASSERT_EQ(job.matched.size(), 2U);
  EXPECT_EQ(job.matched[0].number, 5);
  EXPECT_EQ(job.matched[0].members[0].index, 1U);
  EXPECT_EQ(job.matched[0].members[1].index, 0U);
  ASSERT_EQ(job.lacking.size(), 2U);
  EXPECT_EQ(job.lacking[0], "all_reduce of gradients 0-1: trace 1 lacks number 4");
}

TEST(MatchedCollectives, are_counted_where_no_number_is_said) {
  const auto job = matched(own_spans(0, {1, 2, 3}, ""), own_spans(1, {1, 2, 3}, ""));
  ASSERT_EQ(job.matched.size(), 3U);
  EXPECT_EQ(job.matched[2].members[1].index, 2U);
  EXPECT_TRUE(job.lacking.empty());
}

TEST(MatchedCollectives, of_other_groups_are_others) {
  EXPECT_TRUE(matched(own_spans(0, {1, 2}, "gradients"), own_spans(1, {1, 2}, "weights")).matched.empty());
}

// Without numbers, and a rank lacks one: the other steps are matched all the same.
TEST(MatchedCollectives, that_a_rank_lacks_cost_their_step_alone) {
  const auto made = test::made_traces({.ranks = 2, .steps = 3, .layers = 4});
  auto first = collectives_of(made.traces[0]);
  const auto second = collectives_of(made.traces[1]);
  first.all.erase(first.all.begin() + 5);  // of the second step
  const auto job = match_collectives({&first, &second});
  EXPECT_EQ(job.matched.size(), 8U);
  ASSERT_EQ(job.lacking.size(), 1U);
  EXPECT_NE(job.lacking[0].find("in step 1"), std::string::npos) << job.lacking[0];
  for (const auto& one : job.matched) {
    const auto &a = first.all[one.members[0].index], &b = second.all[one.members[1].index];
    EXPECT_LT(a.begin, b.end);
    EXPECT_LT(b.begin, a.end);
  }
}

}  // namespace
}  // namespace hyperion::analysis
