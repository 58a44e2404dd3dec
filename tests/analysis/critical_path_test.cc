#include "hyperion/analysis/critical_path.h"

#include <gtest/gtest.h>

#include "hyperion/analysis/waits.h"
#include "hyperion/analysis/what_if.h"
#include "hyperion/base/error.h"
#include "tests/analysis/support_job.h"
#include "tests/base/support_child.h"

namespace hyperion::analysis {
namespace {

using test::Delay;
using test::MadeJob;

Job job_of(test::MadeTraces made) {
  std::vector<Timeline> ranks;
  for (auto& trace : made.traces) {
    ranks.push_back(timeline_of(std::move(trace)));
    find_waits(ranks.back());
  }
  return make_job(std::move(ranks));
}

// A delay in any rank, and clocks that are up to 50 ms apart.
MadeJob with_delay(unsigned seed, int ranks, Delay delay) {
  std::mt19937 random(seed);
  MadeJob job{.seed = seed, .ranks = ranks, .delay = delay};
  for (int i = 0; i < ranks; ++i) job.clocks.push_back(static_cast<int64_t>(random() % 100'000'001) - 50'000'000);
  job.delayed_rank = static_cast<int>(random() % static_cast<unsigned>(ranks));
  job.delayed_layer = static_cast<int>(random() % 8);
  job.delay_time = 3'000'000 + static_cast<int64_t>(random() % 5'000'000);
  // The host is ahead of the device by most of a step: less than that would delay nothing.
  if (delay == Delay::host) job.delay_time += 6'000'000;
  return job;
}

bool is_planted(const Job& job, const MadeJob& made, const PathSegment& segment) {
  if (job.ranks[segment.rank].rank != made.delayed_rank) return false;
  const auto name = segment_name(job, segment);
  if (made.delay == Delay::kernel) return name == base::format("gemm_{}_1", made.delayed_layer);
  if (made.delay == Delay::input) return name == "enumerate(DataLoader)#next";
  return segment.before && segment.end - segment.begin > made.delay_time / 2;
}

struct Found {
  int on_path = 0, predicted = 0;
  double worst = 0;  // of the predictions, parts of the truth
};

Found found_of(int ranks, Delay delay) {
  Found found;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    const auto planted = with_delay(seed, ranks, delay);
    auto without = planted;
    without.delay = Delay::none;
    const auto truth = test::made_traces(without);
    const auto job = job_of(test::made_traces(planted));
    const JobGraph graph(job);
    int64_t on_path = 0;
    for (const auto& segment : critical_path(graph).segments)
      if (is_planted(job, planted, segment)) on_path += segment.end - segment.begin;
    found.on_path += on_path >= planted.delay_time * planted.steps * 9 / 10 ? 1 : 0;
    const double step = static_cast<double>(truth.end - truth.begin) / planted.steps;
    const double predicted = step_time_without(graph, {Cause::rank, static_cast<uint32_t>(planted.delayed_rank)});
    found.worst = std::max(found.worst, std::abs(predicted / step - 1));
    found.predicted += std::abs(predicted / step - 1) < 0.05 ? 1 : 0;
  }
  return found;
}

class PlantedDelay : public ::testing::TestWithParam<std::tuple<int, Delay>> {};

TEST_P(PlantedDelay, is_on_the_path_and_the_step_without_it_is_foretold) {
  const auto [ranks, delay] = GetParam();
  const auto found = found_of(ranks, delay);
  std::printf("%d ranks: on the path %d of 100, predicted within 5%% %d of 100, the worst %.2f%% off\n", ranks,
              found.on_path, found.predicted, 100 * found.worst);
  EXPECT_EQ(found.on_path, 100);
  EXPECT_EQ(found.predicted, 100);
}

INSTANTIATE_TEST_SUITE_P(Jobs, PlantedDelay,
                         ::testing::Combine(::testing::Values(2, 4, 8),
                                            ::testing::Values(Delay::kernel, Delay::host, Delay::input)));

TEST(CriticalPath, is_as_long_as_the_job_and_without_holes) {
  const auto made = with_delay(7, 4, Delay::kernel);
  auto traces = test::made_traces(made);
  const int64_t length = traces.end - traces.begin;
  const auto job = job_of(std::move(traces));
  const auto path = critical_path(JobGraph(job));
  ASSERT_FALSE(path.segments.empty());
  EXPECT_NEAR(static_cast<double>(path.length()), static_cast<double>(length), 0.02 * static_cast<double>(length));
  for (size_t i = 1; i < path.segments.size(); ++i) EXPECT_EQ(path.segments[i].begin, path.segments[i - 1].end);
  const auto sums = sums_of(job, path);
  int64_t by_kind = 0, by_rank = 0;
  for (const auto time : sums.by_kind) by_kind += time;
  for (const auto time : sums.by_rank) by_rank += time;
  EXPECT_EQ(by_kind, path.length());
  EXPECT_EQ(by_rank, path.length());
  EXPECT_EQ(sums.by_name.front().name, base::format("gemm_{}_1", made.delayed_layer));
}

// The same dependencies with the same delays.
TEST(JobGraph, replays_what_was_recorded) {
  auto traces = test::made_traces({.ranks = 4});
  const int64_t length = traces.end - traces.begin;
  const auto job = job_of(std::move(traces));
  const JobGraph graph(job);
  EXPECT_NEAR(step_time(graph) * 3, static_cast<double>(length), 0.02 * static_cast<double>(length));
}

TEST(WhatIf, free_communication_leaves_out_its_part) {
  const auto job = job_of(test::made_traces({.ranks = 2, .end_jitter = 1'000}));
  const JobGraph graph(job);
  // Eight collectives a step, of 80 us each and a little.
  const double saved = step_time(graph) - step_time_without(graph, {Cause::communication, 0});
  EXPECT_NEAR(saved, 8 * 80'000, 0.2 * 8 * 80'000);
}

TEST(WhatIf, says_what_it_does_not_know) {
  const auto job = job_of(test::made_traces({.ranks = 2}));
  EXPECT_EQ(what_if_of("rank=1", job).rank, 1U);
  EXPECT_EQ(what_if_of("rank 0", job).without, Cause::rank);
  EXPECT_NE(base::test::error_of([&] { what_if_of("rank=7", job); }).find("there is no trace of rank 7"),
            std::string::npos);
  EXPECT_NE(base::test::error_of([&] { what_if_of("luck", job); }).find("is no cause"), std::string::npos);
}

TEST(MakeJob, refuses_two_traces_of_one_rank) {
  auto made = test::made_traces({.ranks = 2});
  std::vector<Timeline> ranks;
  for (auto& trace : made.traces) trace.facts.rank = 3, ranks.push_back(timeline_of(std::move(trace)));
  EXPECT_NE(base::test::error_of([&] { make_job(std::move(ranks)); }).find("are both of rank 3"), std::string::npos);
}

}  // namespace
}  // namespace hyperion::analysis
