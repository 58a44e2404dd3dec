// The update of all parameters: AdamW or SGD with momentum, over fp32 masters where the weights are narrower.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "hyperion/optim/config.h"

namespace hyperion::optim {

struct Parameter {
  std::string name;
  at::Tensor weight;
  bool decay;
};

struct StateTensor {
  std::string name;  // "master.<parameter>", "first.<parameter>", "second.<parameter>"
  at::Tensor tensor;
};

class Optimizer {
 public:
  // `masters`, fp32, one a parameter and kept: for fp32 weights pass the weights themselves.
  Optimizer(std::vector<Parameter> parameters, std::vector<at::Tensor> masters, const OptimConfig& config);

  // One update; `gradients` in the order of the parameters, each multiplied by `scale` (a device scalar).
  // `step` counts from 1 and sets the bias correction.
  void update(const std::vector<at::Tensor>& gradients, const at::Tensor& scale, double lr, int64_t step);

  // Everything a checkpoint must hold besides the weights; the tensors are the live ones.
  std::vector<StateTensor> state() const;

 private:
  void adamw(size_t index, const at::Tensor& gradient, const at::Tensor& scale, double lr, int64_t step);
  void sgd(size_t index, const at::Tensor& gradient, const at::Tensor& scale, double lr);

  std::vector<Parameter> parameters_;
  std::vector<at::Tensor> masters_, first_, second_;
  OptimConfig config_;
};

}  // namespace hyperion::optim
