#include "hyperion/kernels/top_k.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/topk.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/kernels/top_k_math.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

TopKShape shape_of(const at::Tensor& logits, int64_t choices, bool normalized) {
  return {logits.size(0), static_cast<int32_t>(logits.size(1)), static_cast<int32_t>(choices), normalized};
}

struct TopK : torch::autograd::Function<TopK> {
  static variable_list forward(AutogradContext* context, const at::Tensor& given, int64_t choices, bool normalized) {
    const auto logits = given.contiguous();
    const auto experts = at::empty({logits.size(0), choices}, logits.options().dtype(at::kLong));
    const auto weights = at::empty({logits.size(0), choices}, logits.options().dtype(at::kFloat));
    const auto shape = shape_of(logits, choices, normalized);
    with_type(logits.scalar_type(), [&]<class T>(T) {
      const auto* from = pointer<const T>(logits);
      auto* numbers = pointer<int64_t>(experts);
      auto* shares = pointer<float>(weights);
      logits.is_cuda() ? on_gpu([&] { top_k_gpu(from, shape, numbers, shares, stream_of(logits)); })
                       : top_k_cpu(from, shape, numbers, shares);
    });
    context->mark_non_differentiable({experts});
    context->save_for_backward({logits, experts, weights});
    context->saved_data["normalized"] = normalized;
    return {experts, weights};
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const auto kept = context->get_saved_variables();
    const auto above = upstream[1].contiguous();
    const auto gradient = at::empty_like(kept[0]);
    const auto shape = shape_of(kept[0], kept[1].size(1), context->saved_data.at("normalized").toBool());
    with_type(gradient.scalar_type(), [&]<class T>(T) {
      const TopKBackward<T> all{pointer<const T>(kept[0]), pointer<const int64_t>(kept[1]),
                                pointer<const float>(kept[2]), pointer<const float>(above), pointer<T>(gradient)};
      gradient.is_cuda() ? on_gpu([&] { top_k_backward_gpu(all, shape, stream_of(gradient)); })
                         : top_k_backward_cpu(all, shape);
    });
    return {gradient, {}, {}};
  }
};

}  // namespace

std::pair<at::Tensor, at::Tensor> top_k(const at::Tensor& logits, int64_t choices, bool normalized) {
  HYPERION_CHECK(logits.dim() == 2 && choices >= 1 && choices <= logits.size(1), "a token chooses among its experts");
  const auto found = TopK::apply(logits, choices, normalized);
  return {found[0], found[1]};
}

std::pair<at::Tensor, at::Tensor> top_k_reference(const at::Tensor& logits, int64_t choices, bool normalized) {
  auto [weights, experts] = at::topk(at::softmax(logits, -1, at::kFloat), choices, -1);
  if (normalized) weights = weights.div(weights.sum(-1, /*keepdim=*/true));
  return {experts, weights};
}

}  // namespace hyperion::kernels
