// Carries out what a plan (strategy/plan.h) says of one process of a pipeline: computes the micro-batches of its stages
// in the order of its list, hands hidden states on and their gradients back.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

#include "hyperion/comm/group.h"
#include "hyperion/parallel/pipeline_times.h"
#include "hyperion/strategy/plan.h"

namespace hyperion::parallel {

// What a stage gives to the next, or gets back as gradients.
struct StageTensors {
  at::Tensor states;
  at::Tensor beside = {};  // a few numbers in fp32; undefined: none
};

// What the stages of this process compute.
class PipelineStages {
 public:
  virtual ~PipelineStages() = default;
  // `hidden`: what the stage before gave; undefined for the first. The last stage gives the loss.
  virtual StageTensors forward(int64_t stage, int64_t micro_batch, const StageTensors& hidden) = 0;
  // Of what forward gave: its gradient, or undefined where it is the loss. Gives the gradient of `hidden` to it.
  virtual void backward(int64_t stage, int64_t micro_batch, const StageTensors& given,
                        const StageTensors& gradient) = 0;
  // What `backward` left for later: gradients of weights, which nobody waits for.
  virtual void backward_weights(int64_t /*stage*/, int64_t /*micro_batch*/) {}
};

// To a neighbour in one direction: a group of two with wires of its own, so that no message waits behind one to
// somebody else (in a ring of stages all could wait for each other then). Null: there is no such neighbour.
struct StageLinks {
  comm::Group *states_in = nullptr, *states_out = nullptr, *gradients_in = nullptr, *gradients_out = nullptr;
};
// Stages that lie in a V have their neighbours the other way round from the one at which it turns.
struct PipelineLinks {
  StageLinks down = {}, up = {};
  int64_t turn = 0;  // that stage; 0: there is none
  const StageLinks& of(int64_t stage) const { return turn > 0 && stage >= turn ? up : down; }
};

// Works through a rank's list; of it, what is computed and what passes between stages. Messages travel beside the
// computation: one of each kind is received ahead, and nobody waits until what was sent has arrived. Returns the losses
// of the micro-batches in their order, without their graphs, where this rank has the last stage; else nothing.
// `hidden`: device and type of what arrives; `beside`: how many numbers come with it; `times`: told of each forward and
// backward, where there are any.
std::vector<at::Tensor> run_pipeline(const std::vector<strategy::Instruction>& list, PipelineStages& stages,
                                     const PipelineLinks& links, const at::TensorOptions& hidden, int64_t beside = 0,
                                     PipelineTimes* times = nullptr);

}  // namespace hyperion::parallel
