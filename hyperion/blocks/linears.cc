#include "hyperion/blocks/linears.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace hyperion::blocks {
namespace {

bool behind_each_other(at::TensorList parts) {
  const auto* next = static_cast<const char*>(parts[0].const_data_ptr());
  for (const auto& part : parts) {
    const bool rows = part.is_contiguous() || (part.dim() == 2 && part.stride(1) == 1);  // which may lie apart
    if (!rows || part.strides() != parts[0].strides() || part.const_data_ptr() != next || !part.is_alias_of(parts[0]))
      return false;
    next += part.size(0) * part.stride(0) * static_cast<int64_t>(part.element_size());
  }
  return true;
}

}  // namespace

at::Tensor joined(at::TensorList parts, int64_t dimension) {
  if (parts.empty()) return {};
  if (parts.size() == 1) return parts[0];
  if (dimension != 0 || !behind_each_other(parts)) return at::cat(parts, dimension);
  auto sizes = parts[0].sizes().vec();
  sizes[0] = 0;
  for (const auto& part : parts) sizes[0] += part.size(0);
  return parts[0].as_strided(sizes, parts[0].strides(), parts[0].storage_offset());
}

std::vector<at::Tensor> parted(const at::Tensor& whole, at::TensorList parts, int64_t dimension) {
  if (parts.size() == 1) return {whole};
  std::vector<at::Tensor> views;
  int64_t first = 0;
  for (const auto& part : parts) {
    views.push_back(whole.defined() ? whole.narrow(dimension, first, part.size(dimension)) : at::Tensor());
    first += part.size(dimension);
  }
  return views;
}

std::vector<at::Tensor> gradients_of_linears(torch::autograd::AutogradContext* context,
                                             const std::function<at::Tensor()>& of_weight, const at::Tensor& of_bias,
                                             at::TensorList weights, at::TensorList biases, int64_t dimension) {
  auto gradients = now_or_later(
      context, [of_weight, kept = weights.vec(), dimension] { return parted(of_weight(), kept, dimension); });
  if (biases.empty()) return gradients;
  for (auto& part : parted(of_bias, biases, 0)) gradients.push_back(std::move(part));
  return gradients;
}

void keep_travel(torch::autograd::AutogradContext* context, Travel* travel) {
  context->saved_data["travel"] = reinterpret_cast<int64_t>(travel);
}

Travel* kept_travel(torch::autograd::AutogradContext* context) {
  return reinterpret_cast<Travel*>(context->saved_data.at("travel").toInt());
}

Travel::Finish begin_input_gradient(torch::autograd::AutogradContext* context, const kernels::Gemm& product,
                                    const at::Tensor& whole, at::Tensor& gradient) {
  auto* travel = kept_travel(context);
  if (travel == nullptr) {
    gradient = shaped_like(kernels::gemm(product), whole);
    return [] {};
  }
  if (!context->needs_input_grad(0)) return [] {};
  auto sizes = whole.sizes().vec();
  sizes[1] /= travel->parts();
  gradient = at::empty(sizes, whole.options());
  return travel->sum(gradient, product, Sent::gradients);
}

at::Tensor LaterSum::begin(Travel& travel, const at::Tensor& input, kernels::Gemm product) {
  auto sizes = input.sizes().vec();
  sizes[1] /= travel.parts();
  sizes.back() = product.b.size(product.transpose_b ? 0 : 1);
  const auto out = at::empty(sizes, input.options());
  travel_ = &travel, out_ = out.detach(), product_ = std::move(product);
  return out;
}

void LaterSum::make() const {
  const at::NoGradGuard no_grad;
  travel_->sum(out_, product_, Sent::states)();
}

}  // namespace hyperion::blocks
