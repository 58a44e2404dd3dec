#include "hyperion/optim/clip.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>

namespace hyperion::optim {

ClipResult clip_factor(const std::vector<at::Tensor>& gradients, double limit) {
  const auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2, at::kFloat)));
  if (limit == 0) return {norm, at::ones_like(norm)};
  return {norm, norm.add(1e-6).reciprocal_().mul_(limit).clamp_max_(1.0)};
}

}  // namespace hyperion::optim
