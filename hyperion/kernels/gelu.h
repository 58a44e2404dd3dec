// GELU in its tanh form (GPT-2's): 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// fp32 or bf16, any shape; differentiable. One pass each way on the CPU, vectorised; PyTorch's kernel on a GPU.
at::Tensor gelu(const at::Tensor& input);

// PyTorch's, whatever the device.
at::Tensor gelu_reference(const at::Tensor& input);

}  // namespace hyperion::kernels
