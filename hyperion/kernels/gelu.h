// GELU in its tanh form (GPT-2's): 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), and as it is defined (ViT's):
// 0.5 x (1 + erf(x / sqrt(2))).
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// fp32 or bf16, any shape; differentiable. One pass each way on the CPU, vectorised; PyTorch's kernel on a GPU.
at::Tensor gelu(const at::Tensor& input);

// PyTorch's, whatever the device.
at::Tensor gelu_reference(const at::Tensor& input);

// PyTorch's kernel, one pass each way, on any device.
at::Tensor gelu_erf(const at::Tensor& input);

// Plain operations in fp32 (or wider, where the input is).
at::Tensor gelu_erf_reference(const at::Tensor& input);

}  // namespace hyperion::kernels
