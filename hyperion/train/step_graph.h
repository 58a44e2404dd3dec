// The whole step, forward to update, as a graph: recorded once for each shape of batch, then replayed with one launch.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "hyperion/kernels/small_writes.h"
#include "hyperion/train/feed.h"

namespace hyperion::train {

// A batch at addresses of its own, which graphs read at every replay.
Batch fixed_copy(const Batch& batch);
// Of a batch of the same shape: once the writes are queued, `fixed` holds what `batch` has.
void fill(const Batch& fixed, const Batch& batch, kernels::SmallWrites& writes);

struct StepFigures {
  at::Tensor loss, grad_norm;
  at::Tensor scale_state = {};  // of fp16: see kernels::Updates; undefined: there is none
  at::Tensor expert_load = {};  // nn::ExpertCounters'; undefined: no mixtures
};

class StepGraphs {
 public:
  // `begin` is called before each recording, and `end` after it, also where it failed; what that returns, at each
  // replay of it.
  using Replayed = std::function<void()>;
  StepGraphs(std::function<void()> begin, std::function<Replayed()> end);
  ~StepGraphs();
  // One step through `compute`, which must do the same for equal `shape`s but for the batch's values and what it reads
  // from device memory. The first steps of a shape run as they are; then one is recorded. Where that fails, every later
  // step runs as it is, and the log says why.
  // `writes`: what the step finds on the device; queued with the batch.
  StepFigures run(const std::string& shape, const Batch& batch, kernels::SmallWrites& writes,
                  const std::function<StepFigures(const Batch&)>& compute);

  void forget();  // what was recorded so far
  // From here on the last step of a shape that runs as it is before its recording runs within `record`.
  using Around = std::function<void(const std::function<void()>&)>;
  void record_patterns(Around record) { pattern_ = std::move(record); }
  bool has_patterns() const { return pattern_ != nullptr; }
  bool refused() const { return refused_; }

 private:
  struct Recorded;
  std::map<std::string, std::unique_ptr<Recorded>> recorded_;
  std::function<void()> begin_;
  std::function<Replayed()> end_;
  Around pattern_;
  bool refused_ = false;
};

}  // namespace hyperion::train
