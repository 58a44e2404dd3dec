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
enum class PipelineSchedule { gpipe, one_forward_one_backward, interleaved };
constexpr auto words_of(PipelineSchedule) { return std::array{"gpipe", "1f1b", "interleaved"}; }

struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int64_t ranks = 1, chunks = 1, micro_batches = 1;  // chunks: stages of a rank

  int64_t stages() const { return ranks * chunks; }
  int64_t rank_of(int64_t stage) const { return stage % ranks; }
};

// Throws ConfigError where the schedule cannot be had with these numbers, and says which would do.
void check(const Pipeline& pipeline);

struct StageWork {
  bool forward;
  int64_t stage, micro_batch;
};
// All work of one rank, in its order: each of its stages runs each micro-batch forward once and backward once after it.
// The backwards of a stage are in the order of the micro-batches: gradients are summed as one process sums them.
std::vector<StageWork> work_of(const Pipeline& pipeline, int64_t rank);

// The most micro-batches whose forward was, and whose backward was not yet, counted for each stage of the rank.
int64_t most_kept(const std::vector<StageWork>& work);

// The part of a step's time in which a process waits, where all stages take as long and nothing else takes any.
double bubble_of(const Pipeline& pipeline);

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
