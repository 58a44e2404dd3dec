#include "hyperion/models/decoder_parts.h"

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/nn/key_value_cache.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

Init residual_init(const LlamaConfig& config) {
  return Init::normal(config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

std::shared_ptr<nn::Linear> linear(int64_t in, int64_t out, bool bias, Init init) {
  return std::make_shared<nn::Linear>(in, out, bias, init);
}

class DecoderAttention final : public nn::Module {
 public:
  DecoderAttention(const LlamaConfig& config, size_t layer, std::shared_ptr<nn::Norm> norm)
      : layer_(layer), half_{std::move(norm), inputs(config), output(config)} {
    shape_ = {.head_width = config.head_width, .how = {.window = config.window_of(static_cast<int64_t>(layer))}};
    if (!config.head_norms) return;
    const auto head_norm = [&] { return std::make_shared<nn::RmsNorm>(config.head_width, config.epsilon); };
    shape_.query_norm = register_module("q_norm", head_norm()).get();
    shape_.key_norm = register_module("k_norm", head_norm()).get();
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto projected = half_.in(input, pass);
    return half_.out(projected, nn::attend(projected, shape_, layer_, pass), pass);
  }

 private:
  void lay_out() override { half_.lay_out(); }

  nn::Projections inputs(const LlamaConfig& config) {
    const int64_t queries = config.heads * config.head_width, keys = config.key_value_heads * config.head_width;
    const auto add = [&](const char* name, int64_t out) {
      return register_module(name,
                             linear(config.width, out, config.query_key_value_bias, Init::normal(config.init_std)));
    };
    return {add("q_proj", queries), add("k_proj", keys), add("v_proj", keys)};
  }
  std::shared_ptr<nn::Linear> output(const LlamaConfig& config) {
    return register_module(
        "o_proj", linear(config.heads * config.head_width, config.width, config.output_bias, residual_init(config)));
  }

  size_t layer_;
  nn::SelfAttention shape_;
  nn::PreNorm half_;
};

class DecoderBlock final : public nn::Module {
 public:
  DecoderBlock(const LlamaConfig& config, size_t layer, const FeedForwardPart& part) {
    const auto norm = [&] { return std::make_shared<nn::RmsNorm>(config.width, config.epsilon); };
    const auto before = norm(), after = norm();
    self_attn_ = register_module("self_attn", std::make_shared<DecoderAttention>(config, layer, before));
    feed_forward_ = register_module(part.name, part.make(static_cast<int64_t>(layer), after));
    register_module("input_layernorm", before);
    register_module("post_attention_layernorm", after);
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return run(*feed_forward_, run(*self_attn_, input, pass), pass);
  }

 private:
  std::shared_ptr<DecoderAttention> self_attn_;
  std::shared_ptr<nn::Module> feed_forward_;
};

}  // namespace

nn::GatedShape gated_shape(const LlamaConfig& config, int64_t inner, bool bias) {
  return {config.width, inner, bias, Init::normal(config.init_std), residual_init(config)};
}

CausalDecoder::CausalDecoder(const LlamaConfig& config, const FeedForwardPart& part)
    : context_(config.reach()),
      mixing_{config.heads, config.key_value_heads, config.head_width},
      rotation_(config.head_width, config.rope) {
  if (config.heads % config.key_value_heads != 0 || config.head_width % 2 != 0)
    throw base::ConfigError("key and value heads must divide the heads, and a head's width must be even");
  const auto model = register_module("model", std::make_shared<nn::Branch>());
  embed_tokens_ = model->register_module(
      "embed_tokens", std::make_shared<nn::Embedding>(config.vocabulary, config.width, Init::normal(config.init_std)));
  layers_ = model->register_module("layers", std::make_shared<nn::Stack>(config.layers, [&](int64_t i) {
                                     return std::make_shared<DecoderBlock>(config, i, part);
                                   }));
  head_ = {model->register_module("norm", std::make_shared<nn::RmsNorm>(config.width, config.epsilon)), embed_tokens_,
           config.tied ? nullptr
                       : register_module(
                             "lm_head", linear(config.width, config.vocabulary, false, Init::normal(config.init_std)))};
}

at::Tensor CausalDecoder::first(const at::Tensor& ids, Pass& pass) { return run(*embed_tokens_, ids, pass); }

void CausalDecoder::begin_blocks(const at::Tensor& hidden, Pass& pass) {
  rotation_.apply_to(pass, nn::cached_tokens(pass), hidden);
}

at::Tensor CausalDecoder::last(const at::Tensor& hidden, Pass& pass) { return head_.logits(hidden, pass); }

at::Tensor CausalDecoder::last_loss(const at::Tensor& hidden, const at::Tensor& targets, Pass& pass) {
  return head_.loss(hidden, targets, pass);
}

}  // namespace hyperion::models
