#include "hyperion/models/llama.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/silu.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/nn/layers.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

constexpr double kDeviation = 0.02;

// Residual projections start smaller, by the number of residual additions, so that depth does not grow the variance.
Init residual_init(const LlamaConfig& config) {
  return Init::normal(kDeviation / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

std::shared_ptr<nn::Linear> linear(int64_t in, int64_t out, bool bias, Init init = Init::normal(kDeviation)) {
  return std::make_shared<nn::Linear>(in, out, bias, init);
}

class Attention final : public nn::Module {
 public:
  Attention(const LlamaConfig& config, size_t layer) : head_width_(config.head_width), layer_(layer) {
    const int64_t queries = config.heads * config.head_width, keys = config.key_value_heads * config.head_width;
    const bool bias = config.query_key_value_bias;
    q_proj_ = register_module("q_proj", linear(config.width, queries, bias));
    k_proj_ = register_module("k_proj", linear(config.width, keys, bias));
    v_proj_ = register_module("v_proj", linear(config.width, keys, bias));
    o_proj_ = register_module("o_proj", linear(queries, config.width, config.output_bias, residual_init(config)));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto queries = nn::rotate(heads(run(*q_proj_, input, pass)), pass);
    const auto keys = nn::rotate(heads(run(*k_proj_, input, pass)), pass);
    const auto mixed = nn::attend(queries, keys, heads(run(*v_proj_, input, pass)), layer_, pass);
    return run(*o_proj_, mixed.transpose(1, 2).reshape({input.size(0), input.size(1), -1}), pass);
  }

 private:
  at::Tensor heads(const at::Tensor& packed) const {
    return packed.view({packed.size(0), packed.size(1), -1, head_width_}).transpose(1, 2);
  }

  int64_t head_width_;
  size_t layer_;
  std::shared_ptr<nn::Linear> q_proj_, k_proj_, v_proj_, o_proj_;
};

class FeedForward final : public nn::Module {
 public:
  explicit FeedForward(const LlamaConfig& config) {
    const bool bias = config.feed_forward_bias;
    gate_proj_ = register_module("gate_proj", linear(config.width, config.inner, bias));
    up_proj_ = register_module("up_proj", linear(config.width, config.inner, bias));
    down_proj_ = register_module("down_proj", linear(config.inner, config.width, bias, residual_init(config)));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return run(*down_proj_, at::silu(run(*gate_proj_, input, pass)) * run(*up_proj_, input, pass), pass);
  }

 private:
  std::shared_ptr<nn::Linear> gate_proj_, up_proj_, down_proj_;
};

class Block final : public nn::Module {
 public:
  Block(const LlamaConfig& config, size_t layer) {
    self_attn_ = register_module("self_attn", std::make_shared<Attention>(config, layer));
    mlp_ = register_module("mlp", std::make_shared<FeedForward>(config));
    input_layernorm_ = register_module("input_layernorm", std::make_shared<nn::RmsNorm>(config.width, config.epsilon));
    post_attention_layernorm_ =
        register_module("post_attention_layernorm", std::make_shared<nn::RmsNorm>(config.width, config.epsilon));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto middle = input + run(*self_attn_, run(*input_layernorm_, input, pass), pass);
    return middle + run(*mlp_, run(*post_attention_layernorm_, middle, pass), pass);
  }

 private:
  std::shared_ptr<Attention> self_attn_;
  std::shared_ptr<FeedForward> mlp_;
  std::shared_ptr<nn::RmsNorm> input_layernorm_, post_attention_layernorm_;
};

// The blocks, as the list Hugging Face calls layers.
class Blocks final : public nn::Module {
 public:
  explicit Blocks(const LlamaConfig& config) {
    for (int64_t i = 0; i < config.layers; ++i)
      blocks_.push_back(register_module(std::to_string(i), std::make_shared<Block>(config, i)));
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    at::Tensor hidden = input;
    for (auto& block : blocks_) hidden = run(*block, hidden, pass);
    return hidden;
  }

 private:
  std::vector<std::shared_ptr<Block>> blocks_;
};

class Decoder final : public nn::Module {
 public:
  explicit Decoder(const LlamaConfig& config) : frequencies_(nn::rope_frequencies(config.head_width, config.rope)) {
    embed_tokens_ = register_module(
        "embed_tokens", std::make_shared<nn::Embedding>(config.vocabulary, config.width, Init::normal(kDeviation)));
    layers_ = register_module("layers", std::make_shared<Blocks>(config));
    norm_ = register_module("norm", std::make_shared<nn::RmsNorm>(config.width, config.epsilon));
  }

  at::Tensor forward(const at::Tensor& ids, Pass& pass) override {
    const auto hidden = run(*embed_tokens_, ids, pass);
    frequencies_ = frequencies_.to(ids.device());
    const int64_t first = pass.cache != nullptr ? pass.cache->length() : 0;
    nn::set_rotation(pass, frequencies_, first, ids.size(1), hidden.scalar_type());
    return run(*norm_, run(*layers_, hidden, pass), pass);
  }
  const at::Tensor& token_table() const { return embed_tokens_->weight(); }

 private:
  at::Tensor frequencies_;  // fp32 whatever the parameters are
  std::shared_ptr<nn::Embedding> embed_tokens_;
  std::shared_ptr<Blocks> layers_;
  std::shared_ptr<nn::RmsNorm> norm_;
};

class Llama final : public nn::Module, public LanguageModel {
 public:
  explicit Llama(const LlamaConfig& config) : config_(config) {
    model_ = register_module("model", std::make_shared<Decoder>(config));
    if (!config.tied) lm_head_ = register_module("lm_head", linear(config.width, config.vocabulary, false));
  }

  at::Tensor forward(const at::Tensor& ids, Pass& pass) override {
    const auto hidden = run(*model_, ids, pass);
    return lm_head_ ? run(*lm_head_, hidden, pass) : at::matmul(hidden, model_->token_table().t());
  }
  // Rotary positions have no end: a pass may be longer than the context it was trained for.
  at::Tensor logits(const at::Tensor& ids, Pass& pass) override { return forward(ids, pass); }

  std::vector<Parameter> parameters() override {
    std::vector<Parameter> list;
    for (const auto& item : named_parameters())
      list.push_back(
          {item.key(), item.value(), item.value().dim() >= 2 && !item.key().ends_with("embed_tokens.weight")});
    return list;
  }

  void initialise(uint64_t seed) override { nn::Module::initialise(seed); }
  using torch::nn::Module::to;
  void to(at::Device device, at::ScalarType type) override { torch::nn::Module::to(device, type); }
  std::string config_json() const override { return to_json(config_); }
  int64_t context() const override { return config_.context; }
  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }

 private:
  LlamaConfig config_;
  std::shared_ptr<Decoder> model_;
  std::shared_ptr<nn::Linear> lm_head_;  // none where the output is tied
};

}  // namespace

std::unique_ptr<LanguageModel> make_llama(const LlamaConfig& config) {
  if (config.heads % config.key_value_heads != 0 || config.head_width % 2 != 0)
    throw base::ConfigError("key and value heads must divide the heads, and a head's width must be even");
  return std::make_unique<Llama>(config);
}

}  // namespace hyperion::models
