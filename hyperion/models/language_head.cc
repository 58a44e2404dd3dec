#include "hyperion/models/language_head.h"

#include <ATen/ops/matmul.h>

#include "hyperion/models/model.h"
#include "hyperion/nn/attention.h"
#include "hyperion/nn/cross_entropy.h"

namespace hyperion::models {

at::Tensor LanguageHead::logits(const at::Tensor& hidden, nn::Pass& pass) const {
  const auto normed = nn::wanted(run(*norm, hidden, pass), pass);
  return linear ? run(*linear, normed, pass) : at::matmul(normed, table->weight().t());
}

at::Tensor LanguageHead::loss(const at::Tensor& hidden, const at::Tensor& targets, nn::Pass& pass) const {
  if (!pass.fused_blocks || pass.right != nullptr || (linear && !linear->plain()))
    return loss_of_logits(logits(hidden, pass), targets, pass);
  return nn::linear_cross_entropy(run(*norm, hidden, pass), linear ? linear->weight() : table->weight(), targets);
}

}  // namespace hyperion::models
