#include "hyperion/models/decoder_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>

#include <cmath>

#include "hyperion/base/error.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

constexpr double kDeviation = 0.02;

Init residual_init(const LlamaConfig& config) {
  return Init::normal(kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

std::shared_ptr<nn::Linear> linear(int64_t in, int64_t out, bool bias, Init init = Init::normal(kDeviation)) {
  return std::make_shared<nn::Linear>(in, out, bias, init);
}

class DecoderAttention final : public nn::Module {
 public:
  DecoderAttention(const LlamaConfig& config, size_t layer)
      : head_width_(config.head_width), window_(config.window_of(static_cast<int64_t>(layer))), layer_(layer) {
    const int64_t queries = config.heads * config.head_width, keys = config.key_value_heads * config.head_width;
    const bool bias = config.query_key_value_bias;
    q_proj_ = register_module("q_proj", linear(config.width, queries, bias));
    k_proj_ = register_module("k_proj", linear(config.width, keys, bias));
    v_proj_ = register_module("v_proj", linear(config.width, keys, bias));
    o_proj_ = register_module("o_proj", linear(queries, config.width, config.output_bias, residual_init(config)));
    if (!config.head_norms) return;
    q_norm_ = register_module("q_norm", std::make_shared<nn::RmsNorm>(config.head_width, config.epsilon));
    k_norm_ = register_module("k_norm", std::make_shared<nn::RmsNorm>(config.head_width, config.epsilon));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto queries = heads(run(*q_proj_, input, pass)), keys = heads(run(*k_proj_, input, pass));
    return run(*o_proj_, mixed(queries, keys, heads(run(*v_proj_, input, pass)), pass), pass);
  }

  // residual + the whole of it on norm(residual); undefined where the pass does not allow it.
  at::Tensor fused(const at::Tensor& residual, const nn::RmsNorm& norm, Pass& pass) {
    if (!nn::fuses(pass, 0, {q_proj_.get(), k_proj_.get(), v_proj_.get()}) || !nn::fuses(pass, 0, {o_proj_.get()}))
      return {};
    const auto [hidden, packed] =
        nn::norm_linear(residual, norm.weights(), {q_proj_.get(), k_proj_.get(), v_proj_.get()});
    const int64_t queries = o_proj_->weight().size(1) / head_width_, keys = k_proj_->weight().size(0) / head_width_;
    if (!q_norm_)
      return nn::linear_residual(nn::packed_attention(packed, queries, keys, {.window = window_}, pass), *o_proj_,
                                 hidden);
    const auto parts = heads(packed).split_with_sizes({queries, keys, keys}, 2);
    return nn::linear_residual(mixed(parts[0], parts[1], parts[2], pass), *o_proj_, hidden);
  }

 private:
  void lay_out() override { nn::lay_together({q_proj_.get(), k_proj_.get(), v_proj_.get()}); }

  // [batch, length, heads, head width]
  at::Tensor heads(const at::Tensor& packed) const {
    return packed.view({packed.size(0), packed.size(1), -1, head_width_});
  }

  at::Tensor rotated(const at::Tensor& heads, nn::RmsNorm* norm, Pass& pass) {
    return nn::rotate((norm != nullptr ? run(*norm, heads, pass) : heads).transpose(1, 2), pass);
  }

  // Heads of each -> [batch, length, width of all query heads].
  at::Tensor mixed(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, Pass& pass) {
    const auto rotated_queries = rotated(queries, q_norm_.get(), pass),
               rotated_keys = rotated(keys, k_norm_.get(), pass);
    const auto out =
        nn::attend(rotated_queries, rotated_keys, values.transpose(1, 2), layer_, pass, {.window = window_});
    return out.transpose(1, 2).reshape({queries.size(0), queries.size(1), -1});
  }

  int64_t head_width_, window_;
  size_t layer_;
  std::shared_ptr<nn::Linear> q_proj_, k_proj_, v_proj_, o_proj_;
  std::shared_ptr<nn::RmsNorm> q_norm_, k_norm_;  // none where heads have no norms
};

class DecoderBlock final : public nn::Module {
 public:
  DecoderBlock(const LlamaConfig& config, size_t layer, const FeedForwardPart& part) {
    self_attn_ = register_module("self_attn", std::make_shared<DecoderAttention>(config, layer));
    feed_forward_ = register_module(part.name, part.make(static_cast<int64_t>(layer)));
    input_layernorm_ = register_module("input_layernorm", std::make_shared<nn::RmsNorm>(config.width, config.epsilon));
    post_attention_layernorm_ =
        register_module("post_attention_layernorm", std::make_shared<nn::RmsNorm>(config.width, config.epsilon));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    at::Tensor middle = self_attn_->fused(input, *input_layernorm_, pass);
    if (!middle.defined()) middle = input + run(*self_attn_, run(*input_layernorm_, input, pass), pass);
    const auto* gated = dynamic_cast<const nn::GatedFeedForward*>(feed_forward_.get());
    if (gated != nullptr && gated->fuses(pass)) return gated->fused(middle, post_attention_layernorm_->weights());
    return middle + run(*feed_forward_, run(*post_attention_layernorm_, middle, pass), pass);
  }

 private:
  std::shared_ptr<DecoderAttention> self_attn_;
  std::shared_ptr<nn::Module> feed_forward_;
  std::shared_ptr<nn::RmsNorm> input_layernorm_, post_attention_layernorm_;
};

}  // namespace

nn::GatedShape gated_shape(const LlamaConfig& config, int64_t inner, bool bias) {
  return {config.width, inner, bias, Init::normal(kDeviation), residual_init(config)};
}

CausalDecoder::CausalDecoder(const LlamaConfig& config, const FeedForwardPart& part)
    : context_(config.reach()), rotation_(config.head_width, config.rope) {
  if (config.heads % config.key_value_heads != 0 || config.head_width % 2 != 0)
    throw base::ConfigError("key and value heads must divide the heads, and a head's width must be even");
  const auto model = register_module("model", std::make_shared<nn::Branch>());
  embed_tokens_ = model->register_module(
      "embed_tokens", std::make_shared<nn::Embedding>(config.vocabulary, config.width, Init::normal(kDeviation)));
  layers_ = model->register_module("layers", std::make_shared<nn::Stack>(config.layers, [&](int64_t i) {
                                     return std::make_shared<DecoderBlock>(config, i, part);
                                   }));
  norm_ = model->register_module("norm", std::make_shared<nn::RmsNorm>(config.width, config.epsilon));
  if (!config.tied) lm_head_ = register_module("lm_head", linear(config.width, config.vocabulary, false));
}

at::Tensor CausalDecoder::first(const at::Tensor& ids, Pass& pass) { return run(*embed_tokens_, ids, pass); }

void CausalDecoder::begin_blocks(const at::Tensor& hidden, Pass& pass) {
  rotation_.apply_to(pass, pass.cache != nullptr ? pass.cache->length() : 0, hidden);
}

at::Tensor CausalDecoder::last(const at::Tensor& hidden, Pass& pass) {
  const auto normed = nn::wanted(run(*norm_, hidden, pass), pass);
  return lm_head_ ? run(*lm_head_, normed, pass) : at::matmul(normed, embed_tokens_->weight().t());
}

at::Tensor CausalDecoder::last_loss(const at::Tensor& hidden, const at::Tensor& targets, Pass& pass) {
  if (!pass.fused_blocks || pass.right != nullptr || (lm_head_ && !lm_head_->plain()))
    return PartedTree::last_loss(hidden, targets, pass);
  return nn::linear_cross_entropy(run(*norm_, hidden, pass), lm_head_ ? lm_head_->weight() : embed_tokens_->weight(),
                                  targets);
}

}  // namespace hyperion::models
