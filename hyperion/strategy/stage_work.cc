#include "hyperion/strategy/stage_work.h"

#include <algorithm>

#include "hyperion/strategy/zero_bubble.h"

namespace hyperion::strategy {
namespace {

// The k-th forward, or backward, of an interleaved rank: `ranks` micro-batches through one of its stages, then the same
// through the next, and when all have had them the next `ranks`. Backwards begin at its last stage.
StageWork interleaved_work(const Pipeline& pipeline, int64_t rank, int64_t k, StagePass pass) {
  const int64_t round = pipeline.stages(), chunk = k % round / pipeline.ranks;
  return {pass, (pass == StagePass::forward ? chunk : pipeline.chunks - 1 - chunk) * pipeline.ranks + rank,
          k / round * pipeline.ranks + k % pipeline.ranks};
}

// Of stages one after the other: all micro-batches through one, then all through the next.
StageWork breadth_first_work(const Pipeline& pipeline, int64_t rank, int64_t k, StagePass pass) {
  const int64_t chunk = k / pipeline.micro_batches;
  return {pass, (pass == StagePass::forward ? chunk : pipeline.chunks - 1 - chunk) * pipeline.ranks + rank,
          k % pipeline.micro_batches};
}

StageWork work_at(const Pipeline& pipeline, int64_t rank, int64_t k, StagePass pass) {
  return pipeline.schedule == PipelineSchedule::interleaved ? interleaved_work(pipeline, rank, k, pass)
                                                            : breadth_first_work(pipeline, rank, k, pass);
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
    default:
      return all;
  }
}

RankWork whole_backwards(const Pipeline& pipeline, int64_t rank) {
  const int64_t all = pipeline.micro_batches * pipeline.chunks, ahead = forwards_ahead(pipeline, rank);
  RankWork work;
  for (int64_t k = 0; k < ahead; ++k) work.push_back(work_at(pipeline, rank, k, StagePass::forward));
  for (int64_t k = 0; k < all; ++k) {
    if (ahead + k < all) work.push_back(work_at(pipeline, rank, ahead + k, StagePass::forward));
    work.push_back(work_at(pipeline, rank, k, StagePass::backward));
  }
  return work;
}

}  // namespace

std::vector<RankWork> work_of(const Pipeline& pipeline) {
  check(pipeline);
  if (splits_backward(pipeline.schedule)) return zero_bubble_work(pipeline);
  std::vector<RankWork> ranks;
  for (int64_t rank = 0; rank < pipeline.ranks; ++rank) ranks.push_back(whole_backwards(pipeline, rank));
  return ranks;
}

int64_t most_kept(const RankWork& work) {
  int64_t kept = 0, most = 0;
  for (const auto& one : work) {
    if (one.pass == StagePass::backward_input) continue;  // what its weights need is still there
    most = std::max(most, kept += one.pass == StagePass::forward ? 1 : -1);
  }
  return most;
}

// Narayanan et al., 2021: the pipeline stands still for the time in which the first micro-batch reaches the last stage
// and the gradients of the last one come back; with several stages a rank these ways are as many times shorter.
double bubble_of(const Pipeline& pipeline) {
  if (splits_backward(pipeline.schedule)) return zero_bubble_bubble(pipeline);
  const auto still = static_cast<double>(pipeline.ranks - 1);
  return still / (still + static_cast<double>(pipeline.micro_batches * pipeline.chunks));
}

}  // namespace hyperion::strategy
