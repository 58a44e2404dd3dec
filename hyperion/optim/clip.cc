#include "hyperion/optim/clip.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>

namespace hyperion::optim {

ClipResult clip_factor(const std::vector<at::Tensor>& gradients, double limit, double loss_scale) {
  return clip_norms(norms_of(gradients), limit, loss_scale);
}

at::Tensor norms_of(const std::vector<at::Tensor>& gradients) {
  return at::stack(at::_foreach_norm(gradients, 2, at::kFloat));
}

ClipResult clip_norms(const at::Tensor& norms, double limit, double loss_scale) {
  return clip_to(at::linalg_vector_norm(norms).div_(loss_scale), limit, loss_scale);
}

ClipResult clip_to(const at::Tensor& norm, double limit, double loss_scale) {
  if (limit == 0) return {norm, at::full_like(norm, 1 / loss_scale)};
  return {norm, norm.add(1e-6).reciprocal_().mul_(limit).clamp_max_(1.0).div_(loss_scale)};
}

}  // namespace hyperion::optim
