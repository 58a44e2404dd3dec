#include "hyperion/analysis/pipeline_bubble.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "hyperion/analysis/critical_path.h"
#include "hyperion/analysis/exposed_communication.h"
#include "hyperion/analysis/path_report.h"
#include "hyperion/analysis/waits.h"
#include "hyperion/analysis/what_if.h"
#include "tests/trace/support_traces.h"

namespace hyperion::analysis {
namespace {

using trace::test::SmallTrace;

constexpr int64_t kForwardTime = 1'000'000, kBackwardTime = 2'000'000;  // nanoseconds
constexpr int64_t kPipelineStart = 1'000'000'000;

struct MadePipeline {
  int stages = 4, micro_batches = 8, steps = 2;
  int64_t travel = 0;   // of a message, once both are there
  int64_t slower = 0;   // what the last stage takes longer for each forward
  bool device = false;  // stages launch kernels, which run later
  std::vector<int64_t> clocks = {0, 50'000'000, -20'000'000, 7'000'000};
};

// One forward, one backward: each rank's list is known, so is when each of it can begin.
class PipelineMaker {
 public:
  explicit PipelineMaker(MadePipeline made) : made_(std::move(made)), small_(static_cast<size_t>(made_.stages)) {
    for (size_t r = 0; r < small_.size(); ++r) small_[r].facts().rank = static_cast<int64_t>(r);
  }

  std::vector<trace::Trace> make() && {
    int64_t begin = kPipelineStart;
    for (int step = 0; step < made_.steps; ++step) begin = this->step(step, begin) + 1'000'000;
    std::vector<trace::Trace> traces;
    for (auto& small : small_) traces.push_back(small.take());
    return traces;
  }

 private:
  struct Work {
    bool forward = true;
    int micro_batch = 0;
  };
  std::vector<Work> list_of(int rank) const {
    std::vector<Work> list;
    const int ahead = std::min(made_.stages - 1 - rank, made_.micro_batches);
    for (int i = 0; i < ahead; ++i) list.push_back({true, i});
    for (int i = 0; i < made_.micro_batches; ++i) {
      if (i + ahead < made_.micro_batches) list.push_back({true, i + ahead});
      list.push_back({false, i});
    }
    return list;
  }

  int64_t step(int number, int64_t begin) {
    const auto ranks = small_.size(), parts = static_cast<size_t>(made_.micro_batches);
    std::vector<std::vector<Work>> lists;
    for (size_t r = 0; r < ranks; ++r) lists.push_back(list_of(static_cast<int>(r)));
    for (size_t r = 0; r < ranks; ++r) small_[r].op("aten::randperm", begin + clock(r), begin + 100'000 + clock(r));
    const int64_t marked = std::exchange(begin, begin + 100'000);
    begun_ = begin;
    std::vector<size_t> next(ranks);
    std::vector<int64_t> free(ranks, begin);
    // When what a piece waits for is there; -1: not yet.
    std::vector<std::vector<int64_t>> states(ranks, std::vector<int64_t>(parts, -1)), gradients = states;
    states.front().assign(parts, begin), gradients.back().assign(parts, begin);
    int64_t end = begin;
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t r = 0; r < ranks; ++r)
        while (next[r] < lists[r].size()) {
          const auto& work = lists[r][next[r]];
          const auto part = static_cast<size_t>(work.micro_batch);
          const int64_t there = (work.forward ? states : gradients)[r][part];
          if (there < 0) break;
          const int64_t from = std::max(free[r], there);
          const int64_t slower = work.forward && r + 1 == ranks ? made_.slower : 0;
          const int64_t to = from + (work.forward ? kForwardTime : kBackwardTime) + slower;
          span(r, work, number, from, to);
          free[r] = to, end = std::max(end, to), ++next[r], moved = true;
          if (work.forward && r + 1 < ranks) states[r + 1][part] = pass(r, r + 1, to);
          if (!work.forward && r > 0) gradients[r - 1][part] = pass(r, r - 1, to);
        }
    }
    for (size_t r = 0; r < ranks; ++r) {
      barrier(r, number, free[r], end);
      small_[r].step(number, marked + clock(r), end + 200'000 + clock(r));
    }
    return end + 200'000;
  }

  int64_t clock(size_t r) const { return made_.clocks[r % made_.clocks.size()]; }

  void span(size_t r, const Work& work, int step, int64_t from, int64_t to) {
    const auto args =
        base::format(R"("args": {{"step": {}, "stage": {}, "micro_batch": {}}})", step, r, work.micro_batch);
    const char* name = work.forward ? "stage forward" : "stage backward";
    if (!made_.device) {
      small_[r].add("user_annotation", name, "\"hyperion\"", "0", from + clock(r), to + clock(r), args);
      return small_[r].op("aten::mm", from + clock(r), to + clock(r));
    }
    // All is launched in the first hundredth of the time, and runs after that.
    const int64_t launched = from + (to - from) / 100;
    small_[r].add("user_annotation", name, "\"hyperion\"", "0", from + clock(r), launched + clock(r), args);
    small_[r].launch(from + 1000 + clock(r), from + 2000 + clock(r), ++correlation_);
    small_[r].kernel("gemm", from + clock(r), to + clock(r), 7, correlation_);
  }

  // The receiver asks early.
  int64_t pass(size_t from, size_t to, int64_t sent) {
    const bool states = from < to;
    const char* payload = states ? "hidden states" : "hidden gradients";
    const auto args = base::format(R"("args": {{"group": "{}", "ranks": "{}, {}", "number": {}}})", payload, from, to,
                                   sent_[from][to]++);
    const int64_t there = sent + made_.travel;
    auto& asked = asked_[from][to];
    asked = std::max({asked, sent - 3'000'000, begun_});
    small_[from].add("user_annotation", base::format("send {}", payload), "\"hyperion\"", states ? "1" : "2",
                     sent + clock(from), there + 1000 + clock(from), args);
    small_[to].add("user_annotation", base::format("receive {}", payload), "\"hyperion\"", states ? "3" : "4",
                   asked + clock(to), there + 1000 + clock(to), args);
    asked = there + 1000;
    return there + 1000;
  }

  void barrier(size_t r, int number, int64_t came, int64_t all) {
    small_[r].add(
        "user_annotation", "all_reduce gradients", "\"hyperion\"", "0", came + clock(r), all + 100'000 + clock(r),
        base::format(R"("args": {{"group": "all", "ranks": "0-{}", "number": {}}})", small_.size() - 1, number));
  }

  MadePipeline made_;
  std::vector<SmallTrace> small_;
  int64_t correlation_ = 0, begun_ = 0;
  std::map<size_t, std::map<size_t, int64_t>> sent_, asked_;
};

std::vector<trace::Trace> made(MadePipeline pipeline) { return PipelineMaker(std::move(pipeline)).make(); }

JobCommunication communication(const std::vector<trace::Trace>& traces) {
  std::vector<RankCommunication> ranks;
  for (const auto& trace : traces) ranks.push_back(communication_of(trace));
  return job_communication(ranks);
}

TEST(PipelineBubble, of_equal_stages_is_that_of_the_schedule) {
  for (const bool device : {false, true}) {
    const auto job = communication(made({.device = device}));
    ASSERT_TRUE(job.bubble);
    EXPECT_FALSE(job.bubble->apart);
    EXPECT_EQ(job.bubble->steps, 2);
    ASSERT_EQ(job.bubble->ranks.size(), 4U);
    EXPECT_NEAR(job.bubble->percent(), 100.0 * 3 / 11, 0.2) << "(stages - 1) / (micro-batches + stages - 1)";
    const auto &first = job.bubble->ranks.front(), &last = job.bubble->ranks.back();
    EXPECT_EQ(last.stages, std::vector<int64_t>{3});
    EXPECT_EQ(first.work, int64_t{2} * 8 * (kForwardTime + kBackwardTime));
    EXPECT_NEAR(static_cast<double>(first.before), 0, 20'000);
    EXPECT_NEAR(static_cast<double>(last.before), 2.0 * 3 * kForwardTime, 20'000);
    EXPECT_NEAR(static_cast<double>(last.after), 2.0 * 3 * kBackwardTime, 50'000);
    EXPECT_NEAR(static_cast<double>(last.between), 0, 50'000) << "one forward, one backward without a pause";
    for (const auto& rank : job.bubble->ranks)
      EXPECT_EQ(rank.work + rank.before + rank.between + rank.after, job.bubble->time);
  }
}

TEST(PipelineBubble, names_the_rank_that_works_longest) {
  const auto job = communication(made({.slower = 500'000}));
  ASSERT_TRUE(job.bubble);
  EXPECT_EQ(job.bubble->longest().rank, 3);
  EXPECT_GT(job.bubble->percent(), 100.0 * 3 / 11 + 3);
}

TEST(PipelineBubble, is_told_of_pipelines_alone) {
  EXPECT_FALSE(communication(made({.stages = 1})).bubble);
  SmallTrace small;
  small.op("aten::mm", 0, 1000);
  std::vector<trace::Trace> traces;
  traces.push_back(small.take());
  EXPECT_FALSE(communication(traces).bubble);
}

// Without a collective of all ranks nothing says how clocks are apart.
TEST(PipelineBubble, without_clocks_does_not_tell_begins_and_ends_apart) {
  const auto traces = made({});
  std::vector<std::vector<StageWork>> work;
  for (const auto& trace : traces) work.push_back(stage_work_of(trace));
  std::vector<RankStages> ranks;
  for (size_t i = 0; i < work.size(); ++i) ranks.push_back({static_cast<int64_t>(i), &work[i]});
  std::vector<ClockOffset> clocks(4);
  clocks[0].known = true;
  const auto bubble = pipeline_bubble(ranks, clocks);
  ASSERT_TRUE(bubble);
  EXPECT_TRUE(bubble->apart);
  EXPECT_EQ(bubble->ranks[3].before, 0);
  EXPECT_NEAR(bubble->percent(bubble->ranks[0]), 100.0 * 3 / 11, 0.3) << "which works from the begin to the end";
}

TEST(MatchedSends, are_one_with_their_receives_along_a_pipeline) {
  const auto traces = made({.stages = 2, .micro_batches = 4, .steps = 1});
  const auto job = communication(traces);
  int64_t states = 0, gradients = 0;
  for (const auto& one : job.collectives.matched) {
    if (one.kind != CollectiveKind::send) continue;
    ASSERT_EQ(one.members.size(), 2U);
    (job.collectives.groups[one.group].name == "hidden states" ? states : gradients) += 1;
  }
  EXPECT_EQ(states, 4);
  EXPECT_EQ(gradients, 4);
  EXPECT_TRUE(job.collectives.lacking.empty());
  for (const auto& group : job.groups) {
    if (group.axis != "pp") continue;
    EXPECT_TRUE(group.group.starts_with("hidden "));
    EXPECT_GT(group.waited, 0) << "asked for before it was sent";
  }
}

// Whose numbers say nothing of which is which.
TEST(MatchedSends, of_a_group_that_goes_both_ways_are_not_matched) {
  std::vector<RankCollectives> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    SmallTrace small;
    for (const char* name : {"send a", "receive a"})
      small.add("user_annotation", name, "\"hyperion\"", "2", 1000, 2000,
                R"("args": {"group": "a", "ranks": "0, 1", "number": 0})");
    ranks.push_back(collectives_of(small.take()));
  }
  EXPECT_TRUE(match_collectives({&ranks[0], &ranks[1]}).matched.empty());
}

// What waits for a slow stage is a rank that receives: the path is the slow rank's, and goes over to the others only
// where they decide.
TEST(CriticalPath, of_a_pipeline_goes_through_what_was_sent) {
  std::vector<Timeline> timelines;
  for (auto& trace : made({.stages = 2, .micro_batches = 8, .steps = 1, .travel = 10'000, .slower = 1'000'000})) {
    timelines.push_back(timeline_of(std::move(trace)));
    find_waits(timelines.back());
  }
  const auto job = make_job(std::move(timelines));
  const JobGraph graph(job);
  const auto path = critical_path(graph);
  const auto sums = sums_of(job, path);
  // First its forward, at last its backward; all between is the second rank's.
  EXPECT_NEAR(static_cast<double>(sums.by_rank[0]), kForwardTime + kBackwardTime, 500'000);
  EXPECT_NEAR(static_cast<double>(sums.by_rank[1]), 8.0 * (kForwardTime + kBackwardTime + 1'000'000), 500'000);
}

}  // namespace
}  // namespace hyperion::analysis
