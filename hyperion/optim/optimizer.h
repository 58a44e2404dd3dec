// The update of all parameters: AdamW or SGD with momentum, over fp32 masters where the weights are narrower.
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "hyperion/nn/parameter.h"
#include "hyperion/optim/clip.h"
#include "hyperion/optim/config.h"
#include "hyperion/optim/staging.h"
#include "hyperion/optim/update.h"

namespace hyperion::optim {

class Optimizer {
 public:
  // Each has its master, fp32: of a parameter in fp32 its own tensor.
  Optimizer(std::vector<nn::Parameter> parameters, const OptimConfig& config);

  const std::vector<nn::Parameter>& parameters() const { return parameters_; }

  // One update; `gradients` in the order of the parameters, each multiplied by `scale` (a device scalar).
  // `step` counts from 1 and sets the bias correction.
  void update(const std::vector<at::Tensor>& gradients, const at::Tensor& scale, double lr, int64_t step);
  // The same in two parts, for a graph: the numbers of a step go to the device with `writes`, and the update that is
  // recorded once reads them there.
  void set_numbers(double lr, int64_t step, kernels::SmallWrites& writes);
  void update(const std::vector<at::Tensor>& gradients, const at::Tensor& scale);

  void renew_tables() { updates_.renew_tables(); }  // around the recording of a graph

  // The global norm of the gradients and the factor that clips it (optim/clip.h), in one launch a type on a GPU.
  ClipResult clip(const std::vector<at::Tensor>& gradients, double limit, double loss_scale);

  // For graphs in fp16, on a GPU: the scale and what follows from it live on the device (optim/update.h).
  void scale_on_device(const LossScaleState& state);
  void scale_on_host() { updates_.scale_on_host(); }
  const at::Tensor& scale_state() const { return updates_.scale_state(); }
  at::Tensor loss_scale() const { return updates_.loss_scale(); }

  // From now on moments, and masters that are not the weights themselves, live in host memory and visit the device one
  // parameter at a time while it updates. The numbers stay the same to the bit.
  void to_host();
  bool on_host() const { return staging_ != nullptr; }

  // Everything a checkpoint must hold besides the weights, as "master.<parameter>", "first.<parameter>" and
  // "second.<parameter>"; the tensors are the live ones, at rest.
  std::vector<nn::Parameter> state() const;

  struct Bytes {
    int64_t on_device = 0, on_host = 0;
  };
  Bytes bytes() const;  // of masters and moments; masters that are the weights count as weights

 private:
  // The state of one parameter, where it is to be updated.
  struct Slot {
    at::Tensor master, first, second;
  };
  UpdateTensors tensors_of(size_t index, Slot slot, const at::Tensor& gradient) const;
  void apply(const std::vector<UpdateTensors>& tensors, const at::Tensor& scale);
  bool owns_master(size_t index) const { return !parameters_[index].tensor.is_same(parameters_[index].master); }

  std::vector<nn::Parameter> parameters_;
  std::vector<at::Tensor> first_, second_;
  OptimConfig config_;
  Updates updates_;
  std::unique_ptr<Staging> staging_;  // where the state lives in host memory
};

}  // namespace hyperion::optim
