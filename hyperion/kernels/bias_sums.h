// A bias's gradient is the sum over rows of a gradient that another operation has just written. That one can sum as it
// writes, which saves reading the whole again. Forward, the operation with the bias says of its output that it will
// want the sums, and the one that takes the output sees it; backward, the sums are left beside the gradient. They may
// still be in parts (part_sums.h), so only a bias that is a leaf may ask.
//
// One note each way and thread, the last: who comes too late, or finds another tensor or one changed since, sums
// itself.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

void request_bias_sums(const at::Tensor& output);
bool bias_sums_requested(const at::Tensor& input);
void forget_bias_sums();  // what was said of the last output

void leave_bias_sums(const at::Tensor& gradient, const at::Tensor& sums);
// Undefined where there are none for this gradient. Taken once.
at::Tensor take_bias_sums(const at::Tensor& gradient);

}  // namespace hyperion::kernels
