// What the operations of block_ops.h share: several linears taken as one, and gradients cut apart again.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>
#include <utility>
#include <vector>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/kernels/tensor_forms.h"

namespace hyperion::blocks {

using kernels::as_rows;
using kernels::maybe;
using kernels::or_none;
using kernels::shaped_like;

// The parts one behind the other along `dimension`: a view where they lie so in memory, else a copy; undefined where
// there are none.
at::Tensor joined(at::TensorList parts, int64_t dimension);
// Views of `whole`, shaped as the parts are.
std::vector<at::Tensor> parted(const at::Tensor& whole, at::TensorList parts, int64_t dimension);

// The gradients of linears taken as one, cut apart: the weights', then the biases'.
std::vector<at::Tensor> parted_gradients(const at::Tensor& of_weight, const at::Tensor& of_bias, at::TensorList weights,
                                         at::TensorList biases, int64_t dimension);

// In 8 bits, for linears that say so: the same as norm_linear, joined_linears and (activated_)linear_residual.
std::pair<at::Tensor, at::Tensor> norm_linear_fp8(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                                  const Linears& linears);
at::Tensor joined_linears_fp8(const at::Tensor& input, const Linears& linears);
at::Tensor linear_residual_fp8(const at::Tensor& input, std::optional<kernels::Activation> kind, const Linears& linears,
                               const at::Tensor& residual);

}  // namespace hyperion::blocks
