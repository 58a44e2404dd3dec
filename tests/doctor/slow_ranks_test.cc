#include "hyperion/doctor/slow_ranks.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace hyperion::doctor {
namespace {

// Ranks whose steps all end together, as those of a job do: who is early waits. Seconds of work and input of each.
class Job {
 public:
  Job(std::vector<double> work, uint64_t seed, double scatter = 0.01)
      : work_(std::move(work)),
        input_(work_.size(), 1e-4),
        stopped_(work_.size(), 0),
        random_(seed),
        scatter_(1, scatter) {}

  std::vector<StepDigest> step() {
    std::vector<StepDigest> all;
    double longest = 0;
    for (size_t rank = 0; rank < work_.size(); ++rank) {
      StepDigest one{.input = input_[rank], .stopped = stopped_[rank]};
      one.step = work_[rank] * scatter_(random_) + one.input + one.stopped;
      longest = std::max(longest, one.step);
      all.push_back(one);
    }
    for (auto& one : all) {
      const double end = longest + travel_ * scatter_(random_);
      one.waited = end - one.step;
      one.step = end;
    }
    return all;
  }

  std::vector<double> work_, input_, stopped_;
  double travel_ = 2e-3;

 private:
  std::mt19937_64 random_;
  std::normal_distribution<double> scatter_;
};

std::vector<SlowRank> found_in(SlowRanks& watch, Job& job, int steps) {
  std::vector<SlowRank> all;
  for (int i = 0; i < steps; ++i)
    for (const auto& slow : watch.add(job.step())) all.push_back(slow);
  return all;
}

TEST(SlowRanks, names_the_rank_that_computes_longer_once_and_again_when_it_comes_back) {
  SlowRanks watch(std::vector<int>(8, 0));
  Job job(std::vector<double>(8, 0.02), 1);
  EXPECT_TRUE(found_in(watch, job, 100).empty());
  job.work_[5] *= 1.1;
  const auto found = found_in(watch, job, 20);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 5);
  EXPECT_EQ(found[0].cause, SlowCause::compute);
  EXPECT_NEAR(found[0].percent, 8, 3);
  EXPECT_TRUE(found_in(watch, job, 200).empty());
  job.work_[5] /= 1.1;
  EXPECT_TRUE(found_in(watch, job, 50).empty());
  EXPECT_TRUE(watch.now().empty());
  job.work_[5] *= 1.1;
  EXPECT_EQ(found_in(watch, job, 20).size(), 1u);
}

TEST(SlowRanks, tells_input_and_stops_from_work) {
  for (const int ranks : {1, 2, 3, 8}) {
    Job job(std::vector<double>(static_cast<size_t>(ranks), 0.02), 3);
    SlowRanks starved(std::vector<int>(static_cast<size_t>(ranks), 0));
    EXPECT_TRUE(found_in(starved, job, 50).empty());
    const auto last = static_cast<size_t>(ranks - 1);
    job.input_[last] = 5e-3;
    auto found = found_in(starved, job, 20);
    ASSERT_EQ(found.size(), 1u) << ranks;
    EXPECT_EQ(found[0].rank, ranks - 1);
    EXPECT_EQ(found[0].cause, SlowCause::input);

    job.input_[last] = 1e-4;
    SlowRanks stopped(std::vector<int>(static_cast<size_t>(ranks), 0));
    found.clear();
    for (int i = 0; i < 60; ++i) {
      job.stopped_[last] = i > 30 && i % 5 == 0 ? 0.06 : 0;
      for (const auto& slow : stopped.add(job.step())) found.push_back(slow);
    }
    ASSERT_EQ(found.size(), 1u) << ranks;
    EXPECT_EQ(found[0].rank, ranks - 1);
    EXPECT_EQ(found[0].cause, SlowCause::stopped);
  }
}

TEST(SlowRanks, tells_of_all_where_all_wait_for_input) {
  Job job(std::vector<double>(4, 0.02), 3);
  job.input_.assign(4, 4e-3);
  SlowRanks watch(std::vector<int>(4, 0));
  const auto found = found_in(watch, job, 40);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, -1);
  EXPECT_EQ(found[0].cause, SlowCause::input);
}

TEST(SlowRanks, suspects_the_links_where_all_wait_longer_and_waits_longer_each_time) {
  Job job(std::vector<double>(8, 0.02), 5);
  SlowRanks watch(std::vector<int>(8, 0));
  EXPECT_TRUE(found_in(watch, job, 100).empty());
  EXPECT_FALSE(watch.suspects_links());
  job.travel_ = 5e-3;
  EXPECT_TRUE(found_in(watch, job, 20).empty()) << "no rank is to blame";
  EXPECT_TRUE(watch.suspects_links());
  EXPECT_NEAR(watch.lost_to_links(), 100 * 3e-3 / 25e-3, 3);
  std::set<int> looked;
  for (int i = 0; i < 1000; ++i) {
    watch.add(job.step());
    if (watch.suspects_links()) watch.looked_at_links(false), looked.insert(i);
  }
  EXPECT_EQ(looked.size(), 7u) << "at once, after 10 steps, 20, 40, 80, 160, 320";
}

// Stages of a pipeline do not have the same work; those of one stage do.
TEST(SlowRanks, holds_ranks_against_those_of_their_stage) {
  Job job({0.02, 0.02, 0.03, 0.03}, 7);
  SlowRanks stages({0, 0, 1, 1}), alike({0, 0, 0, 0}), alone({0, 1, 2, 3});
  EXPECT_TRUE(found_in(stages, job, 100).empty());
  EXPECT_EQ(found_in(alike, job, 100).size(), 2u);
  EXPECT_TRUE(found_in(alone, job, 100).empty());
  job.work_[2] *= 1.15;
  const auto found = found_in(stages, job, 20);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 2);
}

// Uneven steps hide small differences, and none of them is an alarm.
TEST(SlowRanks, is_quiet_in_steps_that_scatter) {
  for (const double scatter : {0.0, 0.01, 0.05, 0.2})
    for (const int ranks : {2, 8, 64}) {
      Job job(std::vector<double>(static_cast<size_t>(ranks), 0.05), 11, scatter);
      SlowRanks watch(std::vector<int>(static_cast<size_t>(ranks), 0));
      EXPECT_TRUE(found_in(watch, job, 3000).empty()) << scatter << " " << ranks;
    }
}

// A digest of a thousand ranks is nothing beside a step of theirs; none has a like in the second half.
TEST(SlowRanks, finds_one_rank_among_a_thousand) {
  constexpr int kRanks = 1024;
  std::vector<int> kinds(kRanks, 0);
  for (int rank = kRanks / 2; rank < kRanks; ++rank) kinds[static_cast<size_t>(rank)] = rank;
  Job job(std::vector<double>(kRanks, 0.05), 13);
  SlowRanks watch(kinds);
  EXPECT_TRUE(found_in(watch, job, 100).empty());
  job.work_[317] *= 1.1;
  job.work_[717] *= 1.05;
  const auto found = found_in(watch, job, 20);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].rank, 317);
}

}  // namespace
}  // namespace hyperion::doctor
