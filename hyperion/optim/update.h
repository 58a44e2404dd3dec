// Passes over all tensors of a model: the global norm with the factor that clips it, AdamW and SGD. On a GPU one launch
// a pair of types, with every number that changes from step to step in device memory; on the CPU tensor by tensor.
#pragma once
#include <ATen/core/Tensor.h>

#include <map>
#include <utility>
#include <vector>

#include "hyperion/kernels/small_writes.h"
#include "hyperion/optim/adamw.h"
#include "hyperion/optim/update_math.h"

namespace hyperion::optim {

// Whether element i lies at the same place in both: the order of their sides in memory, but for sides of 1.
bool laid_out_alike(const at::Tensor& a, const at::Tensor& b);

struct ClipFactor {
  at::Tensor norm;   // fp32 scalar, before clipping
  at::Tensor scale;  // fp32 scalar: min(1, limit / norm) / loss_scale; limit 0: nothing is clipped
};

// One a model. Keeps the tables a GPU reads from step to step.
class Updates {
 public:
  // The numbers of the next update; the decay is each tensor's own. On a GPU they go with `writes`, which must be
  // queued before it.
  void set(at::Device device, const AdamWStep& numbers, kernels::SmallWrites& writes);
  void set_sgd(at::Device device, float lr, float momentum, kernels::SmallWrites& writes);

  // With the numbers set last; gradients are multiplied by `scale`, one fp32 number on the device.
  void adamw(const std::vector<UpdateTensors>& tensors, const at::Tensor& scale);
  void sgd(const std::vector<UpdateTensors>& tensors, const at::Tensor& scale);

  // New memory for the tables, and the old is kept: before a graph is recorded and after it, so that what the graph
  // reads is its own. (Memory taken while it records is no use: every replay writes other things there first.)
  void renew_tables();

  // `loss_scale` is what the gradients were multiplied with; the norm is that of the true ones. CUDA tensors.
  ClipFactor clip(const std::vector<at::Tensor>& gradients, double limit, double loss_scale);

  // From here on the loss scale lies on this GPU, and so does what follows from it: clip() takes it from there in place
  // of its argument, tells it whether a step overflowed, and the next update does nothing where it did. The number of
  // the update is the state's too. No host waits, so that a graph can record it.
  void scale_on_device(at::Device device, const LossScaleState& state, int32_t grow_after);
  void scale_on_host() { state_.reset(); }
  const at::Tensor& scale_state() const { return state_; }  // the live LossScaleState; undefined: on the host
  at::Tensor loss_scale() const;                            // the live scale: a fp32 scalar
  static LossScaleState read(const at::Tensor& state);      // waits for the device

 private:
  using Types = std::pair<at::ScalarType, at::ScalarType>;  // of weight and gradient
  struct Table {
    std::vector<int64_t> words;  // what the device's copy holds
    at::Tensor on_device, on_host;
    int64_t chunks = 0;
    size_t chunk_words = 0;
  };
  // The device's copy of the table, made or renewed.
  UpdateTable table(std::map<Types, Table>& tables, Types types, const std::vector<UpdateTensors>& tensors);

  AdamWStep adamw_numbers_{};
  void write(at::Device device, std::span<const float> numbers, kernels::SmallWrites& writes);

  float lr_ = 0, momentum_ = 0;
  at::Tensor numbers_;  // on the GPU
  bool sgd_ = false;    // what they are of
  at::Tensor state_;
  int32_t grow_after_ = 0;
  std::map<Types, Table> updates_, gradients_;
  std::vector<at::Tensor> kept_;
};

}  // namespace hyperion::optim
