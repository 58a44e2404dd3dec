// Of a pipeline each forward and each backward of a micro-batch as a graph: recorded once, then replayed with one
// launch. What passes between stages, and the update, go as they do without graphs.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "hyperion/parallel/pipeline_runner.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/strategy/plan.h"

namespace hyperion::parallel {

// Of batches of one shape.
class StageGraphs {
 public:
  // `begin` is called before each recording, and `end` after it; what that returns, at each replay of it.
  using Replayed = std::function<void()>;
  StageGraphs(TrainedWeights& weights, std::function<void()> begin, std::function<Replayed()> end);
  StageGraphs(StageGraphs&&) noexcept;
  ~StageGraphs();

  // From the next step on: what the stages read is to be where it was, and only its values may differ.
  bool fixed() const;
  bool refused() const;  // the stages could not be recorded, as the log has said

  // The losses of one step through `compute`, which works through `list` with the stages that it is given for its own.
  // The first steps run as they are; then one is recorded. Where that fails, every later step runs as it is.
  using Around = std::function<PipelineStages&(PipelineStages&)>;
  using Compute = std::function<std::vector<at::Tensor>(const Around&)>;
  std::vector<at::Tensor> run(const std::vector<strategy::Instruction>& list, const Compute& compute);

  static PipelineStages& as_they_are(PipelineStages& stages) { return stages; }

 private:
  class Stages;
  struct Recorded;
  void forget();  // and record no more

  TrainedWeights* weights_;
  std::function<void()> begin_;
  std::function<Replayed()> end_;
  std::unique_ptr<Recorded> recorded_;
};

}  // namespace hyperion::parallel
