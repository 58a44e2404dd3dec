#include "hyperion/strategy/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/strategy/stage_work.h"

namespace hyperion::strategy {
namespace {

using base::format;

// "F0 F1 B0 ...", with the stage where a rank has several: "F1.0".
std::string text(const Pipeline& pipeline, size_t rank) {
  std::string out;
  const auto ranks = work_of(pipeline);
  for (const auto& work : ranks[rank]) {
    const bool whole = work.pass == StagePass::backward && splits_backward(pipeline.schedule);
    const char* name = work.pass == StagePass::forward            ? "F"
                       : work.pass == StagePass::backward_weights ? "W"
                       : whole                                    ? "BW"
                                                                  : "B";
    out += format("{}{}", out.empty() ? "" : " ", name);
    out += pipeline.chunks > 1 ? format("{}.{}", work.stage, work.micro_batch) : format("{}", work.micro_batch);
  }
  return out;
}

TEST(Pipeline, orders_are_those_of_their_papers) {
  EXPECT_EQ(text({PipelineSchedule::gpipe, 2, 1, 3}, 0), "F0 F1 F2 B0 B1 B2");
  const Pipeline one{PipelineSchedule::one_forward_one_backward, 3, 1, 4};
  EXPECT_EQ(text(one, 0), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(one, 1), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(one, 2), "F0 B0 F1 B1 F2 B2 F3 B3");
  const Pipeline interleaved{PipelineSchedule::interleaved, 2, 2, 4};
  EXPECT_EQ(text(interleaved, 0), "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3");
  EXPECT_EQ(text(interleaved, 1), "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3");
}

// Of zb-h1 the figure of its paper: all ranks keep as many as the first one, and the last gradients come back at once.
// Of dualpipev the published schedule of 2 ranks. "B": of inputs, "W": of weights, "BW": both at once.
TEST(Pipeline, orders_with_divided_backwards_are_those_of_their_papers) {
  const Pipeline h1{PipelineSchedule::zb_h1, 3, 1, 4};
  EXPECT_EQ(text(h1, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(text(h1, 1), "F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3");
  EXPECT_EQ(text(h1, 2), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
  const Pipeline v{PipelineSchedule::zb_v, 2, 2, 2};
  EXPECT_EQ(text(v, 0), "F0.0 F0.1 F3.0 B3.0 F3.1 B3.1 B0.0 W3.0 B0.1 W3.1 W0.0 W0.1");
  EXPECT_EQ(text(v, 1), "F1.0 F2.0 F1.1 F2.1 B2.0 B1.0 B2.1 B1.1 W2.0 W1.0 W2.1 W1.1");
  const Pipeline dual{PipelineSchedule::dualpipe_v, 2, 2, 4};
  EXPECT_EQ(text(dual, 0),
            "F0.0 F0.1 F0.2 F3.0 B3.0 W3.0 F3.1 F0.3 BW3.1 F3.2 BW0.0 BW3.2 F3.3 BW0.1 BW3.3 B0.2 W0.2 B0.3 W0.3");
  EXPECT_EQ(text(dual, 1),
            "F1.0 F2.0 F1.1 F2.1 F1.2 BW2.0 F2.2 BW1.0 F1.3 BW2.1 F2.3 BW1.1 BW2.2 BW1.2 B2.3 B1.3 W2.3 W1.3");
}

TEST(Pipeline, lies_in_rounds_or_in_a_v) {
  const Pipeline rounds{PipelineSchedule::interleaved, 3, 2, 3}, v{PipelineSchedule::zb_v, 3, 2, 3};
  EXPECT_EQ(rounds.stages_of(1), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(rounds.last_rank(), 2);
  EXPECT_EQ(v.stages_of(0), (std::vector<int64_t>{0, 5}));
  EXPECT_EQ(v.stages_of(2), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(v.last_rank(), 0);
}

TEST(Pipeline, every_stage_runs_every_micro_batch_forward_and_then_backward_in_order) {
  std::map<PipelineSchedule, int> taken;
  for (int64_t ranks = 1; ranks <= 5; ++ranks)
    for (int64_t chunks = 1; chunks <= 3; ++chunks)
      for (int64_t count = 1; count <= 12; ++count)
        for (size_t which = 0; which < words_of(PipelineSchedule{}).size(); ++which) {
          const auto schedule = static_cast<PipelineSchedule>(which);
          const Pipeline pipeline{schedule, ranks, chunks, count};
          try {
            check(pipeline);
          } catch (const base::ConfigError&) {
            continue;
          }
          ++taken[schedule];
          const auto work = work_of(pipeline);
          for (int64_t rank = 0; rank < ranks; ++rank) {
            std::map<int64_t, int64_t> forwards, backwards, weights;  // of each stage so far
            for (const auto& [pass, stage, micro_batch] : work[static_cast<size_t>(rank)]) {
              EXPECT_EQ(pipeline.rank_of(stage), rank);
              const bool later = pass == StagePass::backward_weights, at_once = pass == StagePass::backward;
              if (!later) {
                EXPECT_EQ((pass == StagePass::forward ? forwards : backwards)[stage]++, micro_batch);
              }
              if (later || at_once) {
                EXPECT_EQ(weights[stage]++, micro_batch);
              }
              EXPECT_LE(backwards[stage], forwards[stage]);
              EXPECT_LE(weights[stage], backwards[stage]);
            }
            EXPECT_EQ(forwards.size(), static_cast<size_t>(chunks));
            for (const auto& [stage, done] : forwards)
              EXPECT_TRUE(done == count && backwards[stage] == count && weights[stage] == count);
          }
        }
  EXPECT_EQ(taken.size(), words_of(PipelineSchedule{}).size());
}

TEST(Pipeline, keeps_no_more_than_its_schedule_promises) {
  for (int64_t ranks = 1; ranks <= 6; ++ranks)
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto most = [&](PipelineSchedule schedule, int64_t chunks) {
        return most_kept(work_of({schedule, ranks, chunks, 4 * ranks})[static_cast<size_t>(rank)]);
      };
      EXPECT_EQ(most(PipelineSchedule::gpipe, 1), 4 * ranks);
      EXPECT_EQ(most(PipelineSchedule::one_forward_one_backward, 1), ranks - rank);
      EXPECT_EQ(most(PipelineSchedule::interleaved, 3), 2 * (ranks - rank - 1) + 2 * ranks + 1);
      // Of stages half as large as 1f1b's.
      EXPECT_EQ(most(PipelineSchedule::zb_h1, 1), ranks);
      EXPECT_LE(most(PipelineSchedule::zb_v, 2), 2 * ranks);
      EXPECT_EQ(most(PipelineSchedule::dualpipe_v, 2), 2 * ranks + 1);
    }
}

// In units of a forward: 3 of each micro-batch and stage, and what the last rank waits until it has something to do.
TEST(Pipeline, waits_as_little_as_the_papers_say) {
  for (int64_t ranks = 2; ranks <= 8; ++ranks)
    for (int64_t count = 2 * ranks; count <= 5 * ranks; ++count) {
      const auto part = [&](int64_t work) {
        return static_cast<double>(ranks - 1) / static_cast<double>(work + ranks - 1);
      };
      EXPECT_NEAR(bubble_of({PipelineSchedule::zb_h1, ranks, 1, count}), part(3 * count), 1e-12)
          << ranks << " " << count;
      EXPECT_NEAR(bubble_of({PipelineSchedule::zb_v, ranks, 2, count}), part(6 * count), 1e-12)
          << ranks << " " << count;
      EXPECT_NEAR(bubble_of({PipelineSchedule::dualpipe_v, ranks, 2, count}), part(6 * count), 1e-12)
          << ranks << " " << count;
      EXPECT_LT(bubble_of({PipelineSchedule::zb_v, ranks, 2, count}),
                0.5 * bubble_of({PipelineSchedule::one_forward_one_backward, ranks, 1, count}));
    }
}

TEST(Pipeline, says_what_would_do_in_place_of_what_cannot_be) {
  const auto hint = [](const Pipeline& pipeline) {
    try {
      check(pipeline);
    } catch (const base::ConfigError& error) {
      return std::string(error.what()) + " / " + error.hint();
    }
    return std::string("taken");
  };
  EXPECT_EQ(hint({PipelineSchedule::interleaved, 4, 2, 8}), "taken");
  EXPECT_NE(hint({PipelineSchedule::interleaved, 4, 2, 6}).find("take 4 or 8 (train.accumulate, --micro-batches)"),
            std::string::npos);
  EXPECT_NE(hint({PipelineSchedule::interleaved, 4, 2, 3}).find("take 4 (train.accumulate"), std::string::npos);
  EXPECT_NE(hint({PipelineSchedule::one_forward_one_backward, 4, 2, 8}).find("interleaved"), std::string::npos);
  EXPECT_NE(hint({PipelineSchedule::zb_h1, 4, 2, 8}).find("one stage a process"), std::string::npos);
  EXPECT_NE(hint({PipelineSchedule::zb_v, 4, 3, 8}).find("leave parallel.chunks out"), std::string::npos);
  EXPECT_EQ(hint({PipelineSchedule::zb_v, 4, 2, 1}), "taken");
  EXPECT_NE(hint({PipelineSchedule::dualpipe_v, 4, 2, 7})
                .find("take 8 or more (train.accumulate, --micro-batches), or the schedule zbv"),
            std::string::npos);
  check_zero({PipelineSchedule::zb_h1, 4, 1, 8}, 1);
  check_zero({PipelineSchedule::one_forward_one_backward, 4, 1, 8}, 3);
  EXPECT_THROW(check_zero({PipelineSchedule::zb_h1, 4, 1, 8}, 2), base::ConfigError);
  EXPECT_THROW(cut_into_stages({0, {1, 1, 1}, 0}, 4), base::ConfigError);
}

// The dearest stage of every way to cut: the least of them is what was found.
double cheapest(const PartCosts& costs, size_t begin, int64_t stages, bool first) {
  if (stages == 1) {
    double sum = costs.last + (first ? costs.first : 0);
    for (size_t i = begin; i < costs.blocks.size(); ++i) sum += costs.blocks[i];
    return sum;
  }
  double best = 1e300, sum = first ? costs.first : 0;
  for (size_t end = begin + 1; end + static_cast<size_t>(stages) - 1 <= costs.blocks.size(); ++end) {
    sum += costs.blocks[end - 1];
    best = std::min(best, std::max(sum, cheapest(costs, end, stages - 1, false)));
  }
  return best;
}

TEST(Pipeline, stages_are_cut_so_that_the_dearest_is_as_cheap_as_it_can_be) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    PartCosts costs{.first = static_cast<double>(random() % 8), .last = static_cast<double>(random() % 8)};
    for (size_t i = 0, blocks = 1 + random() % 9; i < blocks; ++i)
      costs.blocks.push_back(1 + static_cast<double>(random() % 5));
    const auto stages = static_cast<int64_t>(1 + random() % costs.blocks.size());
    const auto firsts = cut_into_stages(costs, stages);
    ASSERT_EQ(firsts.size(), static_cast<size_t>(stages) + 1);
    EXPECT_EQ(firsts.front(), 0);
    EXPECT_EQ(firsts.back(), static_cast<int64_t>(costs.blocks.size()));
    double dearest = 0;
    for (size_t stage = 0; stage + 1 < firsts.size(); ++stage) {
      EXPECT_LT(firsts[stage], firsts[stage + 1]);
      double sum = (stage == 0 ? costs.first : 0) + (stage + 2 == firsts.size() ? costs.last : 0);
      for (int64_t i = firsts[stage]; i < firsts[stage + 1]; ++i) sum += costs.blocks[static_cast<size_t>(i)];
      dearest = std::max(dearest, sum);
    }
    EXPECT_EQ(dearest, cheapest(costs, 0, stages, true));
  }
}

}  // namespace
}  // namespace hyperion::strategy
