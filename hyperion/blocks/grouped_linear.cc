#include "hyperion/blocks/grouped_linear.h"

#include <ATen/ops/_grouped_mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "hyperion/blocks/linears.h"

namespace hyperion::blocks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor stacked(at::TensorList weights, int64_t linears) {
  const auto whole = joined(weights, 0);
  return whole.view({linears, whole.size(0) / linears, whole.size(1)});
}

struct GroupedLinear : torch::autograd::Function<GroupedLinear> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& given, const at::Tensor& ends,
                            at::TensorList weights, LaterGradients* later) {
    const auto rows = given.contiguous();
    variable_list kept{rows, ends};
    kept.insert(kept.end(), weights.begin(), weights.end());
    context->save_for_backward(kept);
    keep_later(context, later, weights);
    return at::_grouped_mm(rows, stacked(weights, ends.size(0)).transpose(1, 2), ends);
  }

  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const at::TensorList weights = at::TensorList(kept).slice(2);
    const auto above = upstream[0].contiguous();
    variable_list gradients{at::_grouped_mm(above, stacked(weights, kept[1].size(0)), kept[1]), {}};
    gradients.resize(3 + weights.size());  // later is the last
    bool trained = false;
    for (size_t i = 0; i < weights.size(); ++i) trained = trained || context->needs_input_grad(2 + i);
    if (!trained) return gradients;
    const auto parts = now_or_later(context, [above, kept] {
      const auto of_weights = at::_grouped_mm(above.t(), kept[0], kept[1]);  // [linears, out, in]
      return parted(of_weights.reshape({-1, of_weights.size(2)}), at::TensorList(kept).slice(2), 0);
    });
    std::copy(parts.begin(), parts.end(), gradients.begin() + 2);
    return gradients;
  }
};

}  // namespace

at::Tensor grouped_linear(const at::Tensor& rows, const at::Tensor& ends, const std::vector<at::Tensor>& weights,
                          LaterGradients* later) {
  return GroupedLinear::apply(rows, ends, at::TensorList(weights), later);
}

}  // namespace hyperion::blocks
