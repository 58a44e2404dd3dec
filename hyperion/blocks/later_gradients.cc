#include "hyperion/blocks/later_gradients.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>

#include "hyperion/kernels/kept_reference.h"
#include "hyperion/kernels/tensor_forms.h"

namespace hyperion::blocks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor product(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   bool in_out) {
  if (!in_out) return at::linear(input, weight, bias);
  auto shape = input.sizes().vec();
  shape.back() = weight.size(1);
  const auto rows = input.reshape({-1, weight.size(0)});
  return (bias ? at::addmm(*bias, rows, weight) : at::matmul(rows, weight)).view(shape);
}

struct PlainLinear : torch::autograd::Function<PlainLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, bool in_out, LaterGradients* later) {
    context->save_for_backward({input, weight});
    context->saved_data["in_out"] = in_out;
    context->saved_data["bias"] = bias.has_value();
    keep_later(context, later, weight);
    return product(input, weight, bias, in_out);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const bool in_out = context->saved_data.at("in_out").toBool();
    const auto above = kernels::as_rows(upstream[0]), rows = kernels::as_rows(kept[0]);
    variable_list gradients(5);
    if (context->needs_input_grad(0))
      gradients[0] = at::mm(above, in_out ? kept[1].t() : kept[1]).view(kept[0].sizes());
    gradients[1] = now_or_later(context, [above, rows, in_out] {
      return variable_list{in_out ? at::mm(rows.t(), above) : at::mm(above.t(), rows)};
    })[0];
    if (context->saved_data.at("bias").toBool() && context->needs_input_grad(2)) gradients[2] = above.sum(0);
    return gradients;
  }
};

}  // namespace

void LaterGradients::make() {
  for (auto& [weights, make] : std::exchange(left_, {})) {
    variable_list trained, gradients;
    {
      const at::NoGradGuard no_grad;
      const auto all = std::exchange(make, {})();  // what it holds goes
      for (size_t i = 0; i < weights.size(); ++i)
        if (weights[i].requires_grad()) trained.push_back(weights[i]), gradients.push_back(all[i]);
    }
    torch::autograd::backward(trained, gradients);
  }
}

// What is no leaf has a backward of its own, which runs once.
void keep_later(AutogradContext* context, LaterGradients* later, at::TensorList weights) {
  const bool leaves = std::all_of(weights.begin(), weights.end(), [](const auto& one) { return one.is_leaf(); });
  const bool trained = std::any_of(weights.begin(), weights.end(), [](const auto& one) { return one.requires_grad(); });
  if (later == nullptr || !leaves || !trained) return;
  kernels::keep_reference(context, "later", *later);
  context->saved_data["weights"] = weights.vec();
}

std::vector<at::Tensor> now_or_later(AutogradContext* context, const LaterGradients::Make& make) {
  if (context->saved_data.count("later") == 0) return make();
  auto weights = context->saved_data.at("weights").toTensorVector();
  std::vector<at::Tensor> none(weights.size());
  kernels::kept_reference<LaterGradients>(context, "later").leave(std::move(weights), make);
  return none;
}

at::Tensor plain_linear(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, bool in_out,
                        LaterGradients* later) {
  const auto added = kernels::maybe(bias);
  const bool apart = later != nullptr && at::GradMode::is_enabled() && weight.requires_grad();
  return apart ? PlainLinear::apply(input, weight, added, in_out, later) : product(input, weight, added, in_out);
}

}  // namespace hyperion::blocks
