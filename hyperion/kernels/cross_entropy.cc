#include "hyperion/kernels/cross_entropy.h"

#include <ATen/ops/cross_entropy_loss.h>

namespace hyperion::kernels {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}).to(at::kFloat), targets.reshape({-1}));
}

}  // namespace hyperion::kernels
