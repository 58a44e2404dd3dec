// What Llama's kin share: attention with rotary positions, pre-norm blocks, the decoder around them and its output.
// Families differ in the feed-forward part of a block. For sources of this folder, and kin of one's own
// (examples/own_kernel.cc).
#pragma once
#include <functional>
#include <memory>

#include "hyperion/models/decoder_config.h"
#include "hyperion/models/language_head.h"
#include "hyperion/models/parted_tree.h"
#include "hyperion/nn/feed_forward.h"

namespace hyperion::models {

// Gate, up and down of a feed-forward part in this decoder, with its starts: residual projections start smaller, by the
// number of residual additions, so that depth does not grow the variance.
nn::GatedShape gated_shape(const LlamaConfig& config, int64_t inner, bool bias);

struct FeedForwardPart {
  const char* name;  // in its block
  // A half of the block, behind the norm that the block gives it.
  std::function<std::shared_ptr<nn::Module>(int64_t layer, std::shared_ptr<nn::Norm> norm)> make;
};

// Throws ConfigError where heads or widths contradict each other.
class CausalDecoder : public PartedTree {
 public:
  CausalDecoder(const LlamaConfig& config, const FeedForwardPart& part);
  at::Tensor first(const at::Tensor& ids, nn::Pass& pass) override;
  void begin_blocks(const at::Tensor& hidden, nn::Pass& pass) override;
  nn::Stack& blocks() override { return *layers_; }
  at::Tensor last(const at::Tensor& hidden, nn::Pass& pass) override;
  at::Tensor last_loss(const at::Tensor& hidden, const at::Tensor& targets, nn::Pass& pass) override;
  int64_t context() const override { return context_; }
  strategy::TokenMixing mixing() const override { return mixing_; }

 private:
  int64_t context_;
  strategy::TokenMixing mixing_;
  nn::Rotation rotation_;
  std::shared_ptr<nn::Embedding> embed_tokens_;
  std::shared_ptr<nn::Stack> layers_;
  LanguageHead head_;
};

}  // namespace hyperion::models
