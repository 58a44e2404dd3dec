// What the operations of block_ops.h share: several linears taken as one, and gradients cut apart again.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/later_gradients.h"
#include "hyperion/blocks/travel.h"
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

// The gradients of linears taken as one, cut apart: the weights', which may be left for later, then the biases'.
std::vector<at::Tensor> gradients_of_linears(torch::autograd::AutogradContext* context,
                                             const std::function<at::Tensor()>& of_weight, const at::Tensor& of_bias,
                                             at::TensorList weights, at::TensorList biases, int64_t dimension);

// Rows of a matrix begin where a GPU likes to read.
inline int64_t with_pitch(int64_t width) { return (width + 63) / 64 * 64; }

// Of linears cut among processes; null: they are not.
void keep_travel(torch::autograd::AutogradContext* context, Travel* travel);
Travel* kept_travel(torch::autograd::AutogradContext* context);

// The gradient of such linears' input, the first of the function's, is `product`; `whole`: the input that they saw.
// Where linears are cut it is asked for here, and there when the result has been called.
Travel::Finish begin_input_gradient(torch::autograd::AutogradContext* context, const kernels::Gemm& product,
                                    const at::Tensor& whole, at::Tensor& gradient);

// A sum over processes that is made when the function of autograd that gives it has saved what it keeps: where that was
// the last of what a recomputation is for, it ends there, and no process asks for the sum.
class LaterSum {
 public:
  at::Tensor begin(Travel& travel, const at::Tensor& input, kernels::Gemm product);  // without values as yet
  void make() const;

 private:
  Travel* travel_ = nullptr;
  at::Tensor out_;
  kernels::Gemm product_;
};

// In 8 bits, for linears that say so: the same as norm_linear, joined_linears and (activated_)linear_residual.
std::pair<at::Tensor, at::Tensor> norm_linear_fp8(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                                  const Linears& linears);
at::Tensor joined_linears_fp8(const at::Tensor& input, const Linears& linears);
at::Tensor linear_residual_fp8(const at::Tensor& input, std::optional<kernels::Activation> kind, const Linears& linears,
                               const at::Tensor& residual);

}  // namespace hyperion::blocks
