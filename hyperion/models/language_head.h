// The end of a language model: a norm, then logits by a linear of its own or, where they are tied, by the table of the
// embedding. For sources of this folder.
#pragma once
#include <memory>

#include "hyperion/nn/layers.h"

namespace hyperion::models {

// The modules belong to whoever registered them.
struct LanguageHead {
  std::shared_ptr<nn::Norm> norm;
  std::shared_ptr<nn::Embedding> table;
  std::shared_ptr<nn::Linear> linear;  // null: tied to the table

  at::Tensor logits(const at::Tensor& hidden, nn::Pass& pass) const;  // of the tokens that the pass wants
  // As Model::loss; fused, all logits are never held at once.
  at::Tensor loss(const at::Tensor& hidden, const at::Tensor& targets, nn::Pass& pass) const;

  // Of the classes that this process has.
  at::Tensor own_logits(const at::Tensor& hidden, nn::Pass& pass) const;
  int64_t classes() const { return linear ? linear->outputs() : table->count(); }
};

}  // namespace hyperion::models
