// x / rms(x) * w (Zhang and Sennrich, 2019), reduced in fp32.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// Over the last dimension; in the input's type. Keeps the input and one number a row for the backward.
at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon);

// The same in plain tensor operations, which keep the input in fp32 and two more tensors of its size.
at::Tensor rms_norm_reference(const at::Tensor& input, const at::Tensor& weight, double epsilon);

}  // namespace hyperion::kernels
