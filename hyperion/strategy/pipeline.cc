#include "hyperion/strategy/pipeline.h"

#include <algorithm>
#include <limits>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/words.h"

namespace hyperion::strategy {
namespace {

using base::format;

// The k-th forward, or backward, of an interleaved rank: `ranks` micro-batches through one of its stages, then the same
// through the next, and when all have had them the next `ranks`. Backwards begin at its last stage.
StageWork interleaved_work(const Pipeline& pipeline, int64_t rank, int64_t k, bool forward) {
  const int64_t round = pipeline.stages(), chunk = k % round / pipeline.ranks;
  return {forward, (forward ? chunk : pipeline.chunks - 1 - chunk) * pipeline.ranks + rank,
          k / round * pipeline.ranks + k % pipeline.ranks};
}

// Of stages one after the other: all micro-batches through one, then all through the next.
StageWork breadth_first_work(const Pipeline& pipeline, int64_t rank, int64_t k, bool forward) {
  const int64_t chunk = k / pipeline.micro_batches;
  return {forward, (forward ? chunk : pipeline.chunks - 1 - chunk) * pipeline.ranks + rank, k % pipeline.micro_batches};
}

StageWork work_at(const Pipeline& pipeline, int64_t rank, int64_t k, bool forward) {
  return pipeline.schedule == PipelineSchedule::interleaved ? interleaved_work(pipeline, rank, k, forward)
                                                            : breadth_first_work(pipeline, rank, k, forward);
}

// Forwards before the first backward.
int64_t forwards_ahead(const Pipeline& pipeline, int64_t rank) {
  const int64_t behind = pipeline.ranks - 1 - rank, all = pipeline.micro_batches * pipeline.chunks;
  switch (pipeline.schedule) {
    case PipelineSchedule::gpipe:
      return all;
    case PipelineSchedule::one_forward_one_backward:
      return std::min(all, behind);
    case PipelineSchedule::interleaved:
      return std::min(all, 2 * behind + (pipeline.chunks - 1) * pipeline.ranks);
  }
  return all;
}

}  // namespace

void check(const Pipeline& pipeline) {
  HYPERION_CHECK(pipeline.ranks > 0 && pipeline.chunks > 0 && pipeline.micro_batches > 0, "a pipeline has stages");
  if (pipeline.schedule == PipelineSchedule::one_forward_one_backward && pipeline.chunks > 1)
    throw base::ConfigError(format("the schedule 1f1b has one stage a process, and {} are asked for", pipeline.chunks),
                            "take the schedule interleaved, or one stage a process");
  if (pipeline.schedule != PipelineSchedule::interleaved || pipeline.micro_batches % pipeline.ranks == 0) return;
  const int64_t below = pipeline.micro_batches / pipeline.ranks * pipeline.ranks;
  throw base::ConfigError(
      format("the schedule interleaved runs micro-batches {} at a time, one a process of pp, and {} are no multiple",
             pipeline.ranks, pipeline.micro_batches),
      format("take {}train.accumulate = {}, or the schedule 1f1b",
             below > 0 ? format("train.accumulate = {} or ", below) : "", below + pipeline.ranks));
}

std::vector<StageWork> work_of(const Pipeline& pipeline, int64_t rank) {
  check(pipeline);
  HYPERION_CHECK(rank >= 0 && rank < pipeline.ranks, "a rank is one of the pipeline's");
  const int64_t all = pipeline.micro_batches * pipeline.chunks, ahead = forwards_ahead(pipeline, rank);
  std::vector<StageWork> work;
  for (int64_t k = 0; k < ahead; ++k) work.push_back(work_at(pipeline, rank, k, /*forward=*/true));
  for (int64_t k = 0; k < all; ++k) {
    if (ahead + k < all) work.push_back(work_at(pipeline, rank, ahead + k, /*forward=*/true));
    work.push_back(work_at(pipeline, rank, k, /*forward=*/false));
  }
  return work;
}

int64_t most_kept(const std::vector<StageWork>& work) {
  int64_t kept = 0, most = 0;
  for (const auto& one : work) most = std::max(most, kept += one.forward ? 1 : -1);
  return most;
}

// Narayanan et al., 2021: the pipeline stands still for the time in which the first micro-batch reaches the last stage
// and the gradients of the last one come back; with several stages a rank these ways are as many times shorter.
double bubble_of(const Pipeline& pipeline) {
  const auto still = static_cast<double>(pipeline.ranks - 1);
  return still / (still + static_cast<double>(pipeline.micro_batches * pipeline.chunks));
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
