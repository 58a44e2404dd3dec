#include "hyperion/models/language_head.h"

#include "hyperion/models/model.h"
#include "hyperion/nn/attention.h"
#include "hyperion/nn/cross_entropy.h"
#include "hyperion/nn/shards.h"

namespace hyperion::models {

at::Tensor LanguageHead::own_logits(const at::Tensor& hidden, nn::Pass& pass) const {
  const auto normed = nn::into_shards(run(*norm, hidden, pass), pass);
  const auto seen = nn::wanted(normed, pass);
  return linear ? run(*linear, seen, pass) : table->as_output(seen, pass);
}

at::Tensor LanguageHead::logits(const at::Tensor& hidden, nn::Pass& pass) const {
  return nn::logits_of_shards(own_logits(hidden, pass), classes(), pass);
}

at::Tensor LanguageHead::loss(const at::Tensor& hidden, const at::Tensor& targets, nn::Pass& pass) const {
  const bool whole = !pass.fused_blocks || pass.right != nullptr || (linear && !linear->plain());
  if (whole && pass.shards != nullptr)
    return nn::cross_entropy_of_shards(own_logits(hidden, pass), classes(), targets, pass);
  if (whole) return loss_of_logits(logits(hidden, pass), targets, pass);
  const auto normed = nn::into_shards(run(*norm, hidden, pass), pass);
  const auto& weight = linear ? linear->weight() : table->weight();
  // As a view of it the table is not known again, and its gradients as embedding and as output are added up apart.
  if (pass.shards == nullptr)
    return nn::linear_cross_entropy(normed, pass.apart ? weight.view(weight.sizes()) : weight, targets);
  return nn::linear_cross_entropy_of_shards(normed, weight, classes(), targets, pass);
}

}  // namespace hyperion::models
