// Batch norm (Ioffe and Szegedy, 2015) in training by the statistics of the batch, with a residual added and the
// negative cut off in the same pass.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// All fp32, one a channel; the running ones move by `momentum`, 0: not at all.
struct BatchNormState {
  at::Tensor weight, bias, running_mean, running_var;
  double momentum, epsilon;
};

// relu(norm(input) + residual): [batch, channels, height, width]; the residual may be undefined, and relu left out.
// Differentiable; keeps input and output. On a GPU, channels last and a multiple of 8, one kernel of ours each way;
// else PyTorch's operations.
at::Tensor batch_norm_training(const at::Tensor& input, const BatchNormState& state, const at::Tensor& residual,
                               bool relu);

}  // namespace hyperion::kernels
