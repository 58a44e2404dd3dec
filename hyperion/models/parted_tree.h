// A tree that is run by its parts. For sources of this folder.
#pragma once
#include "hyperion/models/parts.h"
#include "hyperion/models/tree.h"

namespace hyperion::models {

class PartedTree : public Tree, public Parts {
 public:
  Parts* parts() final { return this; }
  at::Tensor forward(const at::Tensor& input, nn::Pass& pass) final { return last(through_blocks(input, pass), pass); }
  at::Tensor loss(const at::Tensor& input, const at::Tensor& targets, nn::Pass& pass) final {
    return last_loss(through_blocks(input, pass), targets, pass);
  }
  at::Tensor last_loss(const at::Tensor& hidden, const at::Tensor& targets, nn::Pass& pass) override {
    return loss_of_logits(last(hidden, pass), targets, pass);
  }

 private:
  at::Tensor through_blocks(const at::Tensor& input, nn::Pass& pass) {
    const auto hidden = first(input, pass);
    begin_blocks(hidden, pass);
    return run(blocks(), hidden, pass);
  }
};

}  // namespace hyperion::models
