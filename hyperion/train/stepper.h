// One update: micro-batches forward and backward, global norm and clip, and the update rule. The same step everywhere.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "hyperion/models/model.h"
#include "hyperion/nn/expert_load.h"
#include "hyperion/nn/fp8_linears.h"
#include "hyperion/nn/saved_tensors.h"
#include "hyperion/optim/loss_scale.h"
#include "hyperion/optim/optimizer.h"
#include "hyperion/parallel/pipeline_times.h"
#include "hyperion/parallel/stage_graphs.h"
#include "hyperion/profile/step_timer.h"
#include "hyperion/train/config.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/step_graph.h"
#include "hyperion/train/step_stages.h"

namespace hyperion::checkpoint {
struct LoadTraffic;
struct OpenedCheckpoint;
}  // namespace hyperion::checkpoint
namespace hyperion::parallel {
class BatchStatistics;
class Processes;
class TrainedWeights;
}  // namespace hyperion::parallel

namespace hyperion::train {

// Left on the device: reading them waits for the step.
struct StepResult {
  at::Tensor loss, grad_norm;
  bool skipped = false;         // fp16: the gradients overflowed, and nothing was updated
  double loss_scale = 0;        // of the next step; fp16 only
  at::Tensor undecided;         // fp16 in a graph: holds those two, on the device
  void decide();                // reads them; waits for the step
  uint64_t hash = 0;            // of the batch's samples, over all processes
  int stop = 0;                 // a signal that asked any process to stop
  at::Tensor right = {};        // how many targets of this process's share were the likeliest; undefined: not counted
  double counted = 0;           // targets, over all processes
  at::Tensor expert_load = {};  // nn::ExpertCounters', of this process's tokens; undefined: no mixtures
};

// What a checkpoint must hold besides tensors.
struct StepperNumbers {
  int64_t updates = 0;  // steps that were not skipped
  double loss_scale = 0;
  int64_t good_steps = 0;
};

class Stepper {
 public:
  // Takes a model initialised in fp32 on the CPU, and moves it to the device and precision of the run.
  // The loss is the cross entropy unless another is given. With several processes each has a Stepper of the same model,
  // and hands its share of each batch to `run`. `values`: of parameters without memory, which only zero = 3 takes.
  Stepper(models::Model& model, const RunConfig& config, at::Device device, LossFunction loss = nullptr,
          parallel::Processes* processes = nullptr, const models::Values& values = {});
  ~Stepper();

  // One batch of train.batch rows, of several processes this one's share. `step` counts from 1. Out of memory: with
  // memory.on_oom = "adapt" the batch is computed in twice as many parts from here on; else, or where a part is one
  // row, base::Error says what took it.
  StepResult run(const Batch& batch, int64_t step, double lr, profile::StepTimer& timer);

  // From the next step on, where it is no graph: tokens then go by whole logits, in place of pieces of them.
  void count_right(bool count) { counts_right_ = count; }

  // Whether steps from the next on are timed stage by stage, where there are several; a GPU is waited for before each.
  void time_stages(bool time) { times_stages_ = time && !stages_.whole(); }
  struct StageTimes {
    int64_t step = 0, parts = 0;  // 0: no step was timed
    std::vector<strategy::TimedWork> work;
  };
  StageTimes stage_times() const;  // of the last that was

  // Forward and backward of one part of the batch under `memory`, and no update: the state is as it was.
  MemoryReport measure(const Batch& batch, const MemoryConfig& memory);
  void use(const MemoryConfig& memory);  // from the next step on; an optimizer on the host stays there
  const MemoryConfig& memory() const { return memory_; }
  MemoryReport held() const;  // between steps, and its gradients until the update
  int64_t accumulate() const { return accumulate_; }
  // Its steps as graphs, or the work of its stages, as far as it knows.
  bool records() const { return graphs_ != nullptr ? !graphs_->refused() : records_stages_; }

  // Steps that are recorded as graphs: the one before each recording runs within `record`. What was recorded before is
  // forgotten, by all processes in the same step. False: no steps are recorded, or it was said already.
  bool record_patterns(const std::function<void(const std::function<void()>&)>& record);

  // Every tensor a checkpoint must hold, by its name there; the live ones. Slices where they are cut among processes,
  // and of a pipeline those of this process's stages.
  std::vector<nn::Parameter> state() const;
  bool saves(const nn::Parameter& item) const;  // this process writes it: each is written once
  // Those of the checkpoint; every process calls it. Returns what was read for it here. Throws ConfigError where they
  // are of another shape or type, and CorruptError, in all processes, where they are bad.
  checkpoint::LoadTraffic load(const checkpoint::OpenedCheckpoint& from);
  std::vector<at::Tensor> trained() const;  // the weights that this process updates
  void check_processes();                   // throws where weights that should be the same on all are not
  const nn::Fp8Linears* fp8() const { return fp8_.get(); }  // null: the precision is another
  parallel::TrainedWeights& weights() const { return *weights_; }
  const StepStages& stages() const { return stages_; }
  StepperNumbers numbers() const;
  void restore(const StepperNumbers& numbers);

 private:
  void make_fp8();
  void make_graphs();
  std::string shape_text(const Batch& all) const;
  std::string unrecorded() const;  // why neither steps nor stages are recorded; empty: they are
  void next_fp8_step();
  at::Tensor gradients(const Batch& all, int64_t step, profile::StepTimer& timer, nn::SavedBytesMeter* meter = nullptr);
  at::Tensor gradients_in_memory(const Batch& all, int64_t step, profile::StepTimer& timer);
  StepResult update(at::Tensor loss);  // once gradients are there, and the optimizer has its numbers
  class MicroBatches;
  std::vector<at::Tensor> losses(const Batch& all, int64_t step, profile::StepTimer& timer, nn::SavedBytesMeter* meter);
  struct Piece {
    int64_t step, index;                      // of the micro-batch in it
    double share;                             // how many such parts the batch has, counted in targets
    blocks::LaterGradients* later = nullptr;  // set: its backward leaves gradients of weights there
  };
  Batch own_part(const Batch& batch) const;  // this process's tokens of it
  // Of one stage: hidden states; of the last the loss. `hidden`: what the stage before gave.
  models::Hidden forward(const Batch& part, const Piece& piece, const models::Stage& stage,
                         const models::Hidden& hidden, nn::SavedBytesMeter* meter);
  // The index-th of the step's. `gradient`: of what the forward gave; undefined: that is the loss.
  void backward(const models::Hidden& given, const models::Hidden& gradient, int64_t index, int64_t count,
                int64_t part);
  void backward_weights(blocks::LaterGradients& later, int64_t index, int64_t count, int64_t part);
  void equalise_buffers();
  double parts_like(int64_t rows) const;  // so many rows, that the batch of all processes has
  // What a part's mean loss is divided by: it weighs by how many of the batch's targets are its own.
  double share_of(int64_t rows, int64_t counted) const;
  void tell_shares(const Batch& all);
  [[noreturn]] void out_of_memory(int64_t step) const;
  // The step by a graph; nothing where this run's steps are not such.
  int64_t room_for_documents(int64_t most, const Batch& batch);
  // The losses of a step's micro-batches by `compute`, of which each forward and backward may become a graph.
  using StageWork =
      std::function<std::vector<at::Tensor>(const Batch&, profile::StepTimer&, const parallel::StageGraphs::Around&)>;
  std::vector<at::Tensor> by_stages(const Batch& all, const std::vector<strategy::Instruction>& list, int64_t step,
                                    profile::StepTimer& timer, const StageWork& compute);
  std::optional<StepResult> by_graph(const Batch& all, int64_t step, double lr, profile::StepTimer& timer);
  void scale_on_host();  // where the device has decided so far

  models::Model& model_;
  const RunConfig& config_;
  at::Device device_;
  at::ScalarType type_;
  LossFunction loss_;  // none: the model's own
  MemoryConfig memory_;
  nn::Residents residents_;
  int64_t accumulate_;
  int64_t parts_here_ = 1;  // of each process's rows: accumulate_, but a short last batch may have fewer
  at::Tensor one_;          // where gradients begin
  at::Tensor shares_;       // of a recorded step: what the parts' losses are multiplied by, on the device
  const char* doing_ = "";  // for the message where memory runs out
  std::unique_ptr<parallel::Processes> alone_;  // where none were given
  parallel::Processes& processes_;
  StepStages stages_;
  int64_t elsewhere_ = 0;  // bytes of the model's weights that other stages have
  std::unique_ptr<parallel::TrainedWeights> weights_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::LossScale> loss_scale_;  // fp16 only
  int64_t updates_ = 0;
  std::unique_ptr<nn::Fp8Linears> fp8_;
  std::unique_ptr<StepGraphs> graphs_;
  struct FixedStages {
    Batch batch;
    parallel::StageGraphs graphs;
  };
  std::map<std::string, FixedStages> stage_graphs_;  // of a pipeline, in place of those: by the shape of a batch
  bool records_stages_ = false;
  bool counts_right_ = false;
  at::Tensor right_;  // of this step
  nn::ExpertCounters expert_counters_;
  double counted_ = 0;             // targets of this step's batch, over all processes
  int64_t rows_ = 0, fewest_ = 0;  // its rows, and those of the process that has the fewest
  int64_t documents_ = 0;          // that a row may have, of all steps so far
  std::unique_ptr<parallel::BatchStatistics> statistics_;
  bool times_stages_ = false;
  parallel::PipelineTimes stage_times_;
  int64_t timed_step_ = 0, timed_parts_ = 0;
};

}  // namespace hyperion::train
