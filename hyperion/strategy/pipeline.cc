#include "hyperion/strategy/pipeline.h"

#include <algorithm>
#include <limits>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/words.h"

namespace hyperion::strategy {
namespace {

using base::format;

// Those that have as many stages a process as they are made for.
void check_chunks(const Pipeline& pipeline) {
  const auto refuse = [&](const char* usual, const char* instead) {
    throw base::ConfigError(format("the schedule {} has {} a process, and {} are asked for",
                                   base::word_of(pipeline.schedule), usual, pipeline.chunks),
                            instead);
  };
  const bool single =
      pipeline.schedule == PipelineSchedule::one_forward_one_backward || pipeline.schedule == PipelineSchedule::zb_h1;
  if (single && pipeline.chunks > 1) refuse("one stage", "take the schedule interleaved, or one stage a process");
  if (is_v(pipeline.schedule) && pipeline.chunks != 2)
    refuse("two stages, in a V,", "leave parallel.chunks out, or take the schedule interleaved");
}

}  // namespace

std::vector<int64_t> Pipeline::stages_of(int64_t rank) const {
  std::vector<int64_t> list;
  for (int64_t stage = 0; stage < stages(); ++stage)
    if (rank_of(stage) == rank) list.push_back(stage);
  return list;
}

void check(const Pipeline& pipeline) {
  HYPERION_CHECK(pipeline.ranks > 0 && pipeline.chunks > 0 && pipeline.micro_batches > 0, "a pipeline has stages");
  check_chunks(pipeline);
  if (pipeline.schedule == PipelineSchedule::dualpipe_v && pipeline.micro_batches < 2 * pipeline.ranks)
    throw base::ConfigError(
        format("the schedule dualpipev needs twice as many micro-batches as processes of pp, {}, and {} {} asked for",
               2 * pipeline.ranks, pipeline.micro_batches, pipeline.micro_batches == 1 ? "is" : "are"),
        format("take {} or more (train.accumulate, --micro-batches), or the schedule zbv", 2 * pipeline.ranks));
  if (pipeline.schedule != PipelineSchedule::interleaved || pipeline.micro_batches % pipeline.ranks == 0) return;
  const int64_t below = pipeline.micro_batches / pipeline.ranks * pipeline.ranks;
  throw base::ConfigError(
      format("the schedule interleaved runs micro-batches {} at a time, one a process of pp, and {} are no multiple",
             pipeline.ranks, pipeline.micro_batches),
      format("take {}{} (train.accumulate, --micro-batches), or the schedule 1f1b",
             below > 0 ? format("{} or ", below) : "", below + pipeline.ranks));
}

void check_zero(const Pipeline& pipeline, int64_t zero) {
  if (zero < 2 || pipeline.ranks == 1 || !splits_backward(pipeline.schedule)) return;
  throw base::ConfigError(
      format("the schedule {} cannot be had with zero {}, which cuts gradients among processes at the end of each "
             "backward: those of weights are made later",
             base::word_of(pipeline.schedule), zero),
      format("use zero 1, or the schedule {}", pipeline.chunks > 1 ? "interleaved" : "1f1b"));
}

std::vector<int64_t> cut_into_stages(const PartCosts& costs, int64_t asked) {
  const size_t blocks = costs.blocks.size(), stages = static_cast<size_t>(asked);
  if (blocks < stages)
    throw base::ConfigError(format("{} blocks cannot be cut into {} stages", blocks, stages),
                            format("use at most {} stages: fewer processes of pp, or fewer stages a process", blocks));
  std::vector<double> before = {0};  // the cost of the blocks before each
  for (const double block : costs.blocks) before.push_back(before.back() + block);
  const auto cost = [&](size_t stage, size_t begin, size_t end) {
    return before[end] - before[begin] + (stage == 0 ? costs.first : 0) + (stage == stages - 1 ? costs.last : 0);
  };
  // Of the stages up to one, which have the blocks before `end`: the dearest of them at its cheapest, and where the
  // last of them then begins.
  struct Best {
    double dearest = std::numeric_limits<double>::infinity();
    size_t begin = 0;
  };
  std::vector<std::vector<Best>> best(stages, std::vector<Best>(blocks + 1));
  for (size_t end = 1; end <= blocks; ++end) best[0][end].dearest = cost(0, 0, end);
  for (size_t stage = 1; stage < stages; ++stage)
    for (size_t end = stage + 1; end <= blocks; ++end)
      for (size_t begin = stage; begin < end; ++begin) {
        const double found = std::max(best[stage - 1][begin].dearest, cost(stage, begin, end));
        if (found < best[stage][end].dearest) best[stage][end] = {found, begin};
      }
  std::vector<int64_t> firsts(stages + 1, static_cast<int64_t>(blocks));
  for (size_t stage = stages, end = blocks; stage-- > 0;) {
    end = best[stage][end].begin;
    firsts[stage] = static_cast<int64_t>(end);
  }
  return firsts;
}

}  // namespace hyperion::strategy
