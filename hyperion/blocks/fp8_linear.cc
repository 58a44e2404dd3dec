// The linears of a transformer's block with their products in 8 bits: as norm_linear.cc and linear_residual.cc, and
// keeping the same. Of a cut matrix each process has its shard, and rounds it as if there were no more of it: products
// are made wide before anything is added up between processes. Each matrix is rounded once for the forward and once,
// transposed, for the weight's gradient: keeping the first would not help, since products of 8 bits want both sides by
// rows.
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/fp8.h"
#include "hyperion/blocks/linears.h"

namespace hyperion::blocks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What a backward finds again: the map, and the factors of the forward's matrices.
struct Fp8Use {
  Fp8Linear map;
  Fp8Factor input, weight;
};

Fp8Use kept_use(AutogradContext* context) {
  const auto number = [&](const char* name) { return context->saved_data.at(name).toInt(); };
  const auto factor = [&](const char* scale, const char* inverse) {
    if (context->saved_data.count(scale) == 0) return Fp8Factor{};
    return Fp8Factor{context->saved_data.at(scale).toTensor(), context->saved_data.at(inverse).toTensor()};
  };
  return {Fp8Linear(*reinterpret_cast<Fp8Scales*>(number("scales")), number("map")),
          factor("input scale", "input inverse"), factor("weight scale", "weight inverse")};
}

void keep_factor(AutogradContext* context, const char* scale, const char* inverse, const Fp8Factor& factor) {
  if (!factor.scale.defined()) return;
  context->saved_data[scale] = factor.scale;
  context->saved_data[inverse] = factor.inverse;
}

// The weight as [out, in] for the forward, as [in, out] for the input's gradient.
struct NarrowWeight {
  at::Tensor values, inverse;
  Fp8Factor factor;
};
NarrowWeight narrow_weight(const at::Tensor& weight, bool in_out, const Fp8Use& use, bool backward) {
  const bool transposed = in_out != backward;
  const auto made =
      fp8_matrix(weight, use.map, Fp8Scales::weight,
                 {.straight = !transposed, .transposed = transposed, .sums = false, .factor = use.weight});
  return {transposed ? made.transposed : made.straight, transposed ? made.transposed_inverse : made.inverse,
          made.factor};
}

at::Tensor forward_product(AutogradContext* context, const Fp8Matrix& x, const at::Tensor& weight, bool in_out,
                           const at::Tensor& bias, const at::Tensor& added, at::ScalarType type) {
  const auto w = narrow_weight(weight, in_out, kept_use(context), /*backward=*/false);
  keep_factor(context, "input scale", "input inverse", x.factor);
  keep_factor(context, "weight scale", "weight inverse", w.factor);
  return fp8_gemm({x.straight, x.inverse, w.values, w.inverse, bias, added, /*fast=*/true}, type);
}

at::Tensor input_gradient(const Fp8Matrix& above, const at::Tensor& weight, bool in_out, const Fp8Use& use) {
  const auto w = narrow_weight(weight, in_out, use, /*backward=*/true);
  return fp8_gemm({above.straight, above.inverse, w.values, w.inverse}, weight.scalar_type());
}

at::Tensor fp8_weight_gradient(const Fp8Matrix& x, const Fp8Matrix& above, bool in_out, at::ScalarType type) {
  return in_out ? fp8_gemm({x.transposed, x.transposed_inverse, above.transposed, above.transposed_inverse}, type)
                : fp8_gemm({above.transposed, above.transposed_inverse, x.transposed, x.transposed_inverse}, type);
}

std::function<at::Tensor()> later_product(const Fp8Matrix& x, const Fp8Matrix& above, bool in_out,
                                          at::ScalarType type) {
  return [x, above, in_out, type] { return fp8_weight_gradient(x, above, in_out, type); };
}

Fp8Linear keep_map(AutogradContext* context, int64_t scales, int64_t map) {
  context->saved_data["scales"] = scales;
  context->saved_data["map"] = map;
  return Fp8Linear(*reinterpret_cast<Fp8Scales*>(scales), map);
}

struct Fp8NormLinear : torch::autograd::Function<Fp8NormLinear> {
  static variable_list forward(AutogradContext* context, const at::Tensor& hidden, const at::Tensor& norm_weight,
                               const std::optional<at::Tensor>& norm_bias, double epsilon, at::TensorList weights,
                               at::TensorList biases, bool in_out, int64_t scales, int64_t index,
                               LaterGradients* later) {
    const auto map = keep_map(context, scales, index);
    keep_later(context, later, weights);
    const kernels::NormWeights norm{norm_weight, or_none(norm_bias), epsilon};
    const auto statistics = kernels::norm_statistics(hidden, norm);
    const auto x = fp8_norm(hidden, norm, statistics, map, {.straight = true});
    const auto out = forward_product(context, x, joined(weights, in_out ? 1 : 0), in_out, joined(biases, 0),
                                     at::Tensor(), hidden.scalar_type());
    variable_list kept{hidden, norm_weight, norm.bias, statistics.mean, statistics.inverse};
    kept.insert(kept.end(), weights.begin(), weights.end());
    kept.insert(kept.end(), biases.begin(), biases.end());
    context->save_for_backward(kept);
    context->set_materialize_grads(false);
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["in_out"] = in_out;
    context->saved_data["linears"] = static_cast<int64_t>(weights.size());
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
    const auto use = kept_use(context);
    variable_list gradients{upstream[0], {}, {}, {}};
    gradients.resize(8 + weights.size() + biases.size());
    if (!upstream[1].defined()) return gradients;
    bool trained = false;
    const size_t first = kept[2].defined() ? 3 : 2;  // of the linears, among the inputs that are there
    for (size_t i = 0; i < weights.size() + biases.size(); ++i)
      trained = trained || context->needs_input_grad(first + i);
    const auto above = fp8_matrix(as_rows(upstream[1]), use.map, Fp8Scales::gradient,
                                  {.straight = true, .transposed = trained, .sums = trained && !biases.empty()});
    const auto weight = joined(weights, side);
    if (trained) {
      const auto x = fp8_norm(kept[0], norm, statistics, use.map, {.transposed = true, .factor = use.input});
      const auto of_linears = gradients_of_linears(context, later_product(x, above, in_out, weight.scalar_type()),
                                                   above.sums, weights, biases, side);
      std::copy(of_linears.begin(), of_linears.end(), gradients.begin() + 4);
    }
    const auto of_normal = input_gradient(above, weight, in_out, use);
    const auto found = kernels::norm_gradients(kept[0], norm, statistics, shaped_like(of_normal, kept[0]), upstream[0]);
    gradients[0] = found.input, gradients[1] = found.weight, gradients[2] = found.bias;
    return gradients;
  }
};

struct Fp8JoinedLinears : torch::autograd::Function<Fp8JoinedLinears> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, at::TensorList weights,
                            at::TensorList biases, bool in_out, int64_t scales, int64_t index, LaterGradients* later) {
    const auto map = keep_map(context, scales, index);
    keep_later(context, later, weights);
    const auto x = fp8_matrix(as_rows(input), map, Fp8Scales::input, {.straight = true});
    variable_list kept{input};
    kept.insert(kept.end(), weights.begin(), weights.end());
    kept.insert(kept.end(), biases.begin(), biases.end());
    context->save_for_backward(kept);
    context->saved_data["in_out"] = in_out;
    context->saved_data["linears"] = static_cast<int64_t>(weights.size());
    return shaped_like(forward_product(context, x, joined(weights, in_out ? 1 : 0), in_out, joined(biases, 0),
                                       at::Tensor(), input.scalar_type()),
                       input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const auto count = static_cast<size_t>(context->saved_data.at("linears").toInt());
    const at::TensorList all(kept), weights = all.slice(1, count), biases = all.slice(1 + count);
    const bool in_out = context->saved_data.at("in_out").toBool();
    const int64_t side = in_out ? 1 : 0;
    const auto use = kept_use(context);
    bool trained = false;
    for (size_t i = 1; i < kept.size(); ++i) trained = trained || context->needs_input_grad(i);
    const auto above = fp8_matrix(as_rows(upstream[0]), use.map, Fp8Scales::gradient,
                                  {.straight = true, .transposed = trained, .sums = trained && !biases.empty()});
    const auto weight = joined(weights, side);
    variable_list gradients{shaped_like(input_gradient(above, weight, in_out, use), kept[0])};
    gradients.resize(5 + weights.size() + biases.size());
    if (!trained) return gradients;
    const auto x = fp8_matrix(as_rows(kept[0]), use.map, Fp8Scales::input, {.transposed = true, .factor = use.input});
    const auto of_linears = gradients_of_linears(context, later_product(x, above, in_out, weight.scalar_type()),
                                                 above.sums, weights, biases, side);
    std::copy(of_linears.begin(), of_linears.end(), gradients.begin() + 1);
    return gradients;
  }
};

constexpr int64_t kNoActivation = -1;

struct Fp8LinearResidual : torch::autograd::Function<Fp8LinearResidual> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& residual,
                            bool in_out, int64_t kind, int64_t scales, int64_t index, LaterGradients* later) {
    const auto map = keep_map(context, scales, index);
    keep_later(context, later, weight);
    const Fp8Forms forms{.straight = true};
    const auto x = kind == kNoActivation ? fp8_matrix(as_rows(input), map, Fp8Scales::input, forms)
                                         : fp8_activation(input, static_cast<kernels::Activation>(kind), map, forms);
    const auto out = forward_product(context, x, weight, in_out, or_none(bias),
                                     residual ? as_rows(*residual) : at::Tensor(), input.scalar_type());
    context->save_for_backward({input, weight});
    context->saved_data["in_out"] = in_out;
    context->saved_data["kind"] = kind;
    context->saved_data["bias"] = bias.has_value();
    context->saved_data["residual"] = residual.has_value();
    return shaped_like(out, input);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const bool in_out = context->saved_data.at("in_out").toBool();
    const int64_t kind = context->saved_data.at("kind").toInt();
    const auto use = kept_use(context);
    const bool trained = context->needs_input_grad(1),
               with_bias = context->saved_data.at("bias").toBool() && context->needs_input_grad(2);
    const auto above = fp8_matrix(as_rows(upstream[0]), use.map, Fp8Scales::gradient,
                                  {.straight = true, .transposed = trained, .sums = with_bias});
    auto of_input = input_gradient(above, kept[1], in_out, use);
    Fp8Matrix x;
    if (kind != kNoActivation) {
      std::tie(of_input, x) =
          fp8_activation_gradient(kept[0], of_input, static_cast<kernels::Activation>(kind), use.map, use.input);
    } else if (trained) {
      x = fp8_matrix(as_rows(kept[0]), use.map, Fp8Scales::input, {.transposed = true, .factor = use.input});
    }
    at::Tensor of_weight;
    if (trained)
      of_weight =
          gradients_of_linears(context, later_product(x, above, in_out, kept[1].scalar_type()), {}, kept[1], {}, 0)[0];
    return {of_input.view(kept[0].sizes()),
            of_weight,
            above.sums,
            context->saved_data.at("residual").toBool() ? upstream[0] : at::Tensor(),
            {},
            {},
            {},
            {},
            {}};
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> norm_linear_fp8(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                                  const Linears& linears) {
  const auto out = Fp8NormLinear::apply(hidden, norm.weight, maybe(norm.bias), norm.epsilon,
                                        at::TensorList(linears.weights), at::TensorList(linears.biases), linears.in_out,
                                        linears.fp8.address(), linears.fp8.index(), linears.later);
  return {out[0], out[1]};
}

at::Tensor joined_linears_fp8(const at::Tensor& input, const Linears& linears) {
  return Fp8JoinedLinears::apply(input, at::TensorList(linears.weights), at::TensorList(linears.biases), linears.in_out,
                                 linears.fp8.address(), linears.fp8.index(), linears.later);
}

at::Tensor linear_residual_fp8(const at::Tensor& input, std::optional<kernels::Activation> kind, const Linears& linears,
                               const at::Tensor& residual) {
  return Fp8LinearResidual::apply(input, linears.weights[0],
                                  linears.biases.empty() ? std::nullopt : maybe(linears.biases[0]), maybe(residual),
                                  linears.in_out, kind ? static_cast<int64_t>(*kind) : kNoActivation,
                                  linears.fp8.address(), linears.fp8.index(), linears.later);
}

}  // namespace hyperion::blocks
