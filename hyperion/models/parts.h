// A model as its first part, its blocks and its last part. Its whole forward is made of these calls, so that a process
// that has some of the blocks runs the same model.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/nn/pass.h"

namespace hyperion::nn {
class Stack;
}

namespace hyperion::models {

class Parts {
 public:
  virtual ~Parts() = default;
  // The hidden states that go into the first block, of what Model::logits takes.
  virtual at::Tensor first(const at::Tensor& input, nn::Pass& pass) = 0;
  // Gives a pass what blocks need of it besides hidden states (rotary positions), and empties what they leave there. To
  // be called before the first block that this process runs, the model's first or not.
  virtual void begin_blocks(const at::Tensor& /*hidden*/, nn::Pass& /*pass*/) {}
  virtual nn::Stack& blocks() = 0;  // each to be run by nn::run_unit, as a block
  // What blocks leave in a pass for the last part, where that runs in another process: so many fp32 numbers that travel
  // beside hidden states, with gradients. What the stage before gave is put back before blocks run.
  virtual int64_t beside_size() const { return 0; }
  virtual at::Tensor beside(nn::Pass& /*pass*/) { return {}; }
  virtual void put_beside(const at::Tensor& /*beside*/, nn::Pass& /*pass*/) {}
  // Logits, or the loss (Model::loss), of the hidden states that the last block gives.
  virtual at::Tensor last(const at::Tensor& hidden, nn::Pass& pass) = 0;
  virtual at::Tensor last_loss(const at::Tensor& hidden, const at::Tensor& targets, nn::Pass& pass) = 0;
};

}  // namespace hyperion::models
