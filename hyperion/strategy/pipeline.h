// A model cut into stages that follow each other, and which of its stages' micro-batches a process runs when. Plain
// data: the same lists are executed, drawn, checked and timed.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace hyperion::strategy {

// gpipe (Huang et al., 2019): all forward, then all backward; with several stages a process one after the other, each
// over all micro-batches (breadth-first; Lamy-Poirier, 2022). 1f1b (Narayanan et al., 2019): a backward as soon as
// there is one, so that a process keeps at most as many micro-batches as stages follow. interleaved (Narayanan et al.,
// 2021): the same with several stages a process, which lie `ranks` apart: the pipeline fills in smaller steps.
// The others make the gradients of weights apart from those of inputs, which alone the stage before waits for, and fill
// with them what would be a wait (strategy/zero_bubble.h).
enum class PipelineSchedule { gpipe, one_forward_one_backward, interleaved, zb_h1, zb_v, dualpipe_v };
constexpr auto words_of(PipelineSchedule) {
  return std::array{"gpipe", "1f1b", "interleaved", "zb-h1", "zbv", "dualpipev"};
}
constexpr bool splits_backward(PipelineSchedule schedule) { return schedule >= PipelineSchedule::zb_h1; }
// Two stages a process in a V: the first half of the stages goes down the processes, the second half comes back up.
constexpr bool is_v(PipelineSchedule schedule) { return schedule >= PipelineSchedule::zb_v; }
constexpr int64_t usual_chunks(PipelineSchedule schedule) {
  return schedule == PipelineSchedule::interleaved || is_v(schedule) ? 2 : 1;
}

struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int64_t ranks = 1, chunks = 1, micro_batches = 1;  // chunks: stages of a rank

  int64_t stages() const { return ranks * chunks; }
  int64_t rank_of(int64_t stage) const {
    return is_v(schedule) && stage >= ranks ? stages() - 1 - stage : stage % ranks;
  }
  int64_t last_rank() const { return rank_of(stages() - 1); }  // which has the last stage
  std::vector<int64_t> stages_of(int64_t rank) const;          // in the order of the forward
};

// Throws ConfigError where the schedule cannot be had with these numbers, and says which would do.
void check(const Pipeline& pipeline);
// The same of the stage of ZeRO.
void check_zero(const Pipeline& pipeline, int64_t zero);

// A backward whole, or in two: the gradient of what came in, and later those of the weights.
enum class StagePass { forward, backward, backward_input, backward_weights };
struct StageWork {
  StagePass pass;
  int64_t stage, micro_batch;
};
using RankWork = std::vector<StageWork>;  // of one rank, in its order

// What a model's parts cost, in any unit. Stages are made of whole blocks; the first has the first part too, and the
// last one the last part.
struct PartCosts {
  double first = 0;
  std::vector<double> blocks = {};
  double last = 0;
};
// The first block of each stage, and behind them the number of blocks: the dearest stage is as cheap as it can be.
// Throws ConfigError where there are fewer blocks than stages.
std::vector<int64_t> cut_into_stages(const PartCosts& costs, int64_t stages);

}  // namespace hyperion::strategy
