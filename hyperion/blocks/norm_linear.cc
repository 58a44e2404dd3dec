#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hyperion/base/fault.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/linears.h"
#include "hyperion/kernels/bias_sums.h"
#include "hyperion/kernels/gemm.h"

namespace hyperion::blocks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct NormLinear : torch::autograd::Function<NormLinear> {
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& norm_weight,
                               const std::optional<at::Tensor>& norm_bias, double epsilon, at::TensorList weights,
                               at::TensorList biases, bool in_out, LaterGradients* later) {
    const auto normal = kernels::normalize(hidden, {norm_weight, or_none(norm_bias), epsilon});
    const int64_t side = in_out ? 1 : 0;
    const auto out = kernels::gemm(
        {.a = as_rows(normal.output), .b = joined(weights, side), .transpose_b = !in_out, .bias = joined(biases, 0)});
    variable_list kept{hidden, norm_weight, or_none(norm_bias), normal.statistics.mean, normal.statistics.inverse};
    kept.insert(kept.end(), weights.begin(), weights.end());
    kept.insert(kept.end(), biases.begin(), biases.end());
    context->save_for_backward(kept);
    context->set_materialize_grads(false);
    keep_later(context, later, weights);
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["in_out"] = in_out;
    context->saved_data["linears"] = static_cast<int64_t>(weights.size());
    context->saved_data["sums"] = kernels::bias_sums_requested(hidden);
    if (!biases.empty() && std::all_of(biases.begin(), biases.end(),
                                       [](const at::Tensor& bias) { return bias.requires_grad() && bias.is_leaf(); }))
      kernels::request_bias_sums(out);
    return {hidden, shaped_like(out, hidden)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const auto count = static_cast<size_t>(context->saved_data.at("linears").toInt());
    const at::TensorList all(kept), weights = all.slice(5, count), biases = all.slice(5 + count);
    const bool in_out = context->saved_data.at("in_out").toBool();
    const int64_t side = in_out ? 1 : 0;
    const kernels::NormWeights norm{kept[1], kept[2], context->saved_data.at("epsilon").toDouble()};
    const kernels::NormStatistics statistics{kept[3], kept[4]};
    variable_list gradients{upstream[0], {}, {}, {}};
    gradients.resize(6 + weights.size() + biases.size());  // in_out and later are the last
    if (!upstream[1].defined()) return gradients;
    const auto above = as_rows(upstream[1]);
    bool trained = false;
    const size_t first = kept[2].defined() ? 3 : 2;  // of the linears, among the inputs that are there
    for (size_t i = 0; i < weights.size() + biases.size(); ++i)
      trained = trained || context->needs_input_grad(first + i);
    const auto sums = trained && !biases.empty() ? kernels::take_bias_sums(upstream[1]) : at::Tensor();
    const bool dropped = base::fault_point("kernels.residual_gradient") == base::Fault::drop;
    const auto found = kernels::norm_gradients(
        kept[0], norm, statistics,
        shaped_like(kernels::gemm({.a = above, .b = joined(weights, side), .transpose_b = in_out}), kept[0]),
        dropped ? at::Tensor() : upstream[0], {.output = trained, .sums = context->saved_data.at("sums").toBool()});
    if (found.sums.defined()) kernels::leave_bias_sums(found.input, found.sums);
    if (trained) {
      const auto of_bias = biases.empty() || sums.defined() ? sums : kernels::column_sums(above);
      const auto of_linears = gradients_of_linears(
          context,
          [above, normal = as_rows(found.output), in_out] { return kernels::weight_gradient(normal, above, in_out); },
          of_bias, weights, biases, side);
      std::copy(of_linears.begin(), of_linears.end(), gradients.begin() + 4);
    }
    gradients[0] = found.input, gradients[1] = found.weight, gradients[2] = found.bias;
    return gradients;
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> norm_linear(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                              const Linears& linears) {
  if (linears.fp8) return norm_linear_fp8(hidden, norm, linears);
  const auto out =
      NormLinear::apply(hidden, norm.weight, maybe(norm.bias), norm.epsilon, at::TensorList(linears.weights),
                        at::TensorList(linears.biases), linears.in_out, linears.later);
  return {out[0], out[1]};
}

}  // namespace hyperion::blocks
