// Batch norm (Ioffe and Szegedy, 2015) in training by the statistics of the batch, with a residual added and the
// negative cut off in the same pass.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// All fp32, one a channel; the running ones move by `momentum`, 0: not at all.
struct BatchNormState {
  at::Tensor weight, bias, running_mean, running_var;
  double momentum, epsilon;
  at::Tensor batches = {};  // int64, one number, counted up by one; may be undefined
};

// relu(norm(input) + residual): [batch, channels, height, width]; the residual may be undefined, and relu left out.
// Differentiable. On a GPU, channels last and a multiple of 8, kernels of ours, which keep the input and with both
// residual and relu a bit an element; else PyTorch's operations.
at::Tensor batch_norm_training(const at::Tensor& input, const BatchNormState& state, const at::Tensor& residual,
                               bool relu);

// Where an output of the above, with residual and relu by our kernels, goes two ways: the same values for the second
// way, once an output. The norm's backward then adds up the gradients of both in its own pass. Any other tensor comes
// back as it is.
at::Tensor second_way(const at::Tensor& output);

}  // namespace hyperion::kernels
