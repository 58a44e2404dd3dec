#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/base/error.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/linears.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/bias_sums.h"
#include "hyperion/kernels/gemm.h"

namespace hyperion::blocks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPlainInput = -1;

// Now or later.
at::Tensor of_weight(AutogradContext* context, const at::Tensor& input, const at::Tensor& above, bool in_out) {
  return now_or_later(context, [input, above, in_out] {
    return variable_list{kernels::weight_gradient(as_rows(input), as_rows(above), in_out)};
  })[0];
}

struct LinearResidual : torch::autograd::Function<LinearResidual> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& residual,
                            bool in_out, int64_t kind, bool last_use, LaterGradients* later) {
    const auto active = kind == kPlainInput ? input : kernels::activate(input, static_cast<kernels::Activation>(kind));
    const auto out = kernels::gemm({.a = as_rows(active),
                                    .b = weight,
                                    .transpose_b = !in_out,
                                    .bias = or_none(bias),
                                    .added = residual ? as_rows(*residual) : at::Tensor()});
    context->save_for_backward({input, weight});
    keep_later(context, later, weight);
    context->saved_data["in_out"] = in_out;
    context->saved_data["kind"] = kind;
    context->saved_data["last_use"] = last_use;
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["residual"] = residual.has_value();
    context->saved_data["sums"] = kind != kPlainInput && kernels::bias_sums_requested(input);
    if (bias && bias->requires_grad() && bias->is_leaf()) kernels::request_bias_sums(out);
    return shaped_like(out, input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const bool in_out = context->saved_data.at("in_out").toBool();
    const int64_t kind = context->saved_data.at("kind").toInt();
    const auto above = as_rows(upstream[0]);
    const bool trained = context->needs_input_grad(1),
               with_bias = context->saved_data.at("bias").toBool() && context->needs_input_grad(2);
    const auto sums = with_bias ? kernels::take_bias_sums(upstream[0]) : at::Tensor();
    auto of_input = kernels::gemm({.a = above, .b = kept[1], .transpose_b = in_out});
    at::Tensor active = kept[0];
    if (kind != kPlainInput) {
      const bool last_use = context->saved_data.at("last_use").toBool();
      const auto found =
          kernels::activation_gradients(as_rows(kept[0]), of_input, static_cast<kernels::Activation>(kind),
                                        {trained, context->saved_data.at("sums").toBool(), last_use});
      if (last_use) kept[0].unsafeGetTensorImpl()->bump_version();  // whoever else kept it is told
      of_input = found.input, active = found.again;
      if (found.sums.defined()) kernels::leave_bias_sums(of_input, found.sums);
    }
    return {of_input.view(kept[0].sizes()),
            trained ? of_weight(context, active, above, in_out) : at::Tensor(),
            with_bias && !sums.defined() ? kernels::column_sums(above) : sums,
            context->saved_data.at("residual").toBool() ? upstream[0] : at::Tensor(),
            {},
            {},
            {},
            {}};
  }
};

struct JoinedLinears : torch::autograd::Function<JoinedLinears> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, at::TensorList weights,
                            at::TensorList biases, bool in_out, Travel* travel, LaterGradients* later) {
    const kernels::Gemm product{.a = travel == nullptr ? as_rows(input) : at::Tensor(),
                                .b = joined(weights, in_out ? 1 : 0),
                                .transpose_b = !in_out,
                                .bias = joined(biases, 0)};
    const auto [whole, rows] = travel == nullptr ? Travel::Gathered{input, kernels::gemm(product)}
                                                 : travel->gather(input, product, Sent::states);
    variable_list kept{whole};
    kept.insert(kept.end(), weights.begin(), weights.end());
    kept.insert(kept.end(), biases.begin(), biases.end());
    context->save_for_backward(kept);
    context->saved_data["in_out"] = in_out;
    context->saved_data["linears"] = static_cast<int64_t>(weights.size());
    keep_travel(context, travel);
    keep_later(context, later, weights);
    return shaped_like(rows, whole);
  }

  // The gradient of the input is made first: it travels while those of the weights are made.
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const auto count = static_cast<size_t>(context->saved_data.at("linears").toInt());
    const at::TensorList all(kept), weights = all.slice(1, count), biases = all.slice(1 + count);
    const bool in_out = context->saved_data.at("in_out").toBool();
    const int64_t side = in_out ? 1 : 0;
    const auto above = as_rows(upstream[0]);
    variable_list gradients(4 + weights.size() + biases.size());  // in_out, travel and later are the last
    const auto arrive = begin_input_gradient(context, {.a = above, .b = joined(weights, side), .transpose_b = in_out},
                                             kept[0], gradients[0]);
    bool trained = false;
    for (size_t i = 1; i < kept.size(); ++i) trained = trained || context->needs_input_grad(i);
    if (trained) {
      const auto of_linears = gradients_of_linears(
          context, [above, rows = as_rows(kept[0]), in_out] { return kernels::weight_gradient(rows, above, in_out); },
          biases.empty() ? at::Tensor() : kernels::column_sums(above), weights, biases, side);
      std::copy(of_linears.begin(), of_linears.end(), gradients.begin() + 1);
    }
    arrive();
    return gradients;
  }
};

struct SummedLinear : torch::autograd::Function<SummedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight, bool in_out,
                            int64_t kind, bool last_use, Travel* travel, LaterSum* sum, LaterGradients* later) {
    const auto active = kind == kPlainInput ? input : kernels::activate(input, static_cast<kernels::Activation>(kind));
    context->save_for_backward({input, weight});
    context->saved_data["in_out"] = in_out;
    context->saved_data["kind"] = kind;
    context->saved_data["last_use"] = last_use;
    keep_travel(context, travel);
    keep_later(context, later, weight);
    return sum->begin(*travel, input, {.a = as_rows(active), .b = weight, .transpose_b = !in_out});
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const bool in_out = context->saved_data.at("in_out").toBool();
    const int64_t kind = context->saved_data.at("kind").toInt();
    const bool trained = context->needs_input_grad(1);
    auto [above, of_input] =
        kept_travel(context)->gather(upstream[0], {.a = {}, .b = kept[1], .transpose_b = in_out}, Sent::gradients);
    at::Tensor active = kept[0];
    if (kind != kPlainInput) {
      const bool last_use = context->saved_data.at("last_use").toBool();
      const auto found = kernels::activation_gradients(
          as_rows(kept[0]), of_input, static_cast<kernels::Activation>(kind), {.value = trained, .in_place = last_use});
      if (last_use) kept[0].unsafeGetTensorImpl()->bump_version();  // whoever else kept it is told
      of_input = found.input, active = found.again;
    }
    return {of_input.view(kept[0].sizes()),
            trained ? of_weight(context, active, above, in_out) : at::Tensor(),
            {},
            {},
            {},
            {},
            {},
            {}};
  }
};

at::Tensor apply(const at::Tensor& input, int64_t kind, const Linears& linears, const at::Tensor& residual,
                 bool last_use) {
  HYPERION_CHECK(linears.weights.size() == 1 && linears.biases.size() <= 1, "a residual is added to one map");
  if (linears.fp8)
    return linear_residual_fp8(
        input, kind == kPlainInput ? std::nullopt : std::optional(static_cast<kernels::Activation>(kind)), linears,
        residual);
  return LinearResidual::apply(input, linears.weights[0],
                               linears.biases.empty() ? std::nullopt : maybe(linears.biases[0]), maybe(residual),
                               linears.in_out, kind, last_use, linears.later);
}

}  // namespace

at::Tensor joined_linears(const at::Tensor& input, const Linears& linears, Travel* travel) {
  if (linears.fp8) {
    HYPERION_CHECK(travel == nullptr, "in 8 bits, what enters shards has arrived");
    return joined_linears_fp8(input, linears);
  }
  return JoinedLinears::apply(input, at::TensorList(linears.weights), at::TensorList(linears.biases), linears.in_out,
                              travel, linears.later);
}

at::Tensor summed_linear(const at::Tensor& input, std::optional<kernels::Activation> kind, const Linears& linears,
                         Travel& travel, bool last_use) {
  HYPERION_CHECK(!linears.fp8 && linears.weights.size() == 1 && linears.biases.empty(),
                 "a sum is of one map, without a bias that would count several times");
  LaterSum sum;
  const auto out =
      SummedLinear::apply(input, linears.weights[0], linears.in_out, kind ? static_cast<int64_t>(*kind) : kPlainInput,
                          last_use, &travel, &sum, linears.later);
  sum.make();
  return out;
}

at::Tensor linear_residual(const at::Tensor& input, const Linears& linears, const at::Tensor& residual) {
  return apply(input, kPlainInput, linears, residual, false);
}

at::Tensor activated_linear_residual(const at::Tensor& input, kernels::Activation kind, const Linears& linears,
                                     const at::Tensor& residual, bool last_use) {
  return apply(input, static_cast<int64_t>(kind), linears, residual, last_use);
}

}  // namespace hyperion::blocks
