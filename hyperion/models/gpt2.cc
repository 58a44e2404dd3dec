#include "hyperion/models/gpt2.h"

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/models/language_head.h"
#include "hyperion/models/parted_tree.h"
#include "hyperion/nn/key_value_cache.h"
#include "hyperion/nn/pre_norm.h"
#include "hyperion/nn/shards.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

// Residual projections start smaller, by the number of residual additions, so that depth does not grow the variance.
Init residual_init(const Gpt2Config& config) {
  return Init::normal(config.init_std / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

std::shared_ptr<nn::Projection> gpt2_linear(int64_t in, int64_t out, Init init) {
  return std::make_shared<nn::LinearInOut>(in, out, init);
}

class Gpt2Attention final : public nn::Module {
 public:
  Gpt2Attention(const Gpt2Config& config, size_t layer, std::shared_ptr<nn::Norm> norm)
      : shape_{.head_width = config.width / config.heads},
        layer_(layer),
        dropout_{config.dropout, "attn", layer},
        half_{std::move(norm),
              {register_module("c_attn", gpt2_linear(config.width, 3 * config.width, Init::normal(config.init_std)))},
              register_module("c_proj", gpt2_linear(config.width, config.width, residual_init(config)))} {}

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto projected = half_.in(input, pass);
    return half_.out(projected, nn::attend(projected, shape_, layer_, pass), pass, dropout_);
  }

 private:
  nn::SelfAttention shape_;
  size_t layer_;
  nn::PartDropout dropout_;
  nn::PreNorm half_;
};

class Gpt2FeedForward final : public nn::Module {
 public:
  Gpt2FeedForward(const Gpt2Config& config, size_t layer, std::shared_ptr<nn::Norm> norm)
      : dropout_{config.dropout, "mlp", layer},
        half_{std::move(norm),
              {register_module("c_fc", gpt2_linear(config.width, inner(config), Init::normal(config.init_std)))},
              register_module("c_proj", gpt2_linear(inner(config), config.width, residual_init(config)))} {}

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return half_.out(half_.in(input, pass), nn::Activation::gelu_tanh, pass, dropout_);
  }

 private:
  static int64_t inner(const Gpt2Config& config) { return config.inner > 0 ? config.inner : 4 * config.width; }

  nn::PartDropout dropout_;
  nn::PreNorm half_;
};

class Gpt2Block final : public nn::Module {
 public:
  Gpt2Block(const Gpt2Config& config, size_t layer) {
    const auto norm = [&] { return std::make_shared<nn::LayerNorm>(config.width, config.epsilon); };
    const auto ln_1 = register_module("ln_1", norm());
    attn_ = register_module("attn", std::make_shared<Gpt2Attention>(config, layer, ln_1));
    const auto ln_2 = register_module("ln_2", norm());
    mlp_ = register_module("mlp", std::make_shared<Gpt2FeedForward>(config, layer, ln_2));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return run(*mlp_, run(*attn_, input, pass), pass);
  }

 private:
  std::shared_ptr<Gpt2Attention> attn_;
  std::shared_ptr<Gpt2FeedForward> mlp_;
};

class Gpt2 final : public PartedTree {
 public:
  explicit Gpt2(const Gpt2Config& config) : config_(config) {
    const auto embedding = [&](int64_t count) {
      return std::make_shared<nn::Embedding>(count, config.width, Init::normal(config.init_std));
    };
    const auto transformer = register_module("transformer", std::make_shared<nn::Branch>());
    wte_ = transformer->register_module("wte", embedding(config.vocabulary));
    wpe_ = transformer->register_module("wpe", embedding(config.context));
    h_ = transformer->register_module("h", std::make_shared<nn::Stack>(config.layers, [&](int64_t i) {
                                        return std::make_shared<Gpt2Block>(config, i);
                                      }));
    head_ = {transformer->register_module("ln_f", std::make_shared<nn::LayerNorm>(config.width, config.epsilon)), wte_,
             nullptr};
    if (!config.tied)
      head_.linear = register_module("lm_head", std::make_shared<nn::Linear>(config.width, config.vocabulary, false,
                                                                             Init::normal(config.init_std)));
  }

  at::Tensor first(const at::Tensor& ids, Pass& pass) override {
    check_length(ids, pass);
    const auto embedded = nn::embed_at(*wte_, *wpe_, ids, nn::cached_tokens(pass), pass);
    return nn::dropout(embedded, config_.embedding_dropout, "embd", 0, pass, nn::own_elements(embedded, pass));
  }
  nn::Stack& blocks() override { return *h_; }
  at::Tensor last(const at::Tensor& hidden, Pass& pass) override { return head_.logits(hidden, pass); }
  at::Tensor last_loss(const at::Tensor& hidden, const at::Tensor& targets, Pass& pass) override {
    return head_.loss(hidden, targets, pass);
  }

  std::string config_json() const override { return to_json(config_); }
  int64_t context() const override { return config_.context; }

  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }
  std::vector<strategy::CutRule> cuts() const override { return cuts_of(config_); }
  strategy::TokenMixing mixing() const override {
    return {config_.heads, config_.heads, config_.width / config_.heads};
  }

 private:
  void check_length(const at::Tensor& ids, const Pass& pass) const {
    const int64_t seen = nn::cached_tokens(pass) + ids.size(1);
    if (!pass.positions.defined() && seen > config_.context)
      throw base::ConfigError(base::format("{} tokens are more than the model's context of {}", seen, config_.context),
                              "give less text or ask for fewer new tokens");
  }

  Gpt2Config config_;
  std::shared_ptr<nn::Embedding> wte_, wpe_;
  std::shared_ptr<nn::Stack> h_;
  LanguageHead head_;
};

}  // namespace

std::unique_ptr<Model> make_gpt2(const Gpt2Config& config) {
  if (config.width % config.heads != 0) throw base::ConfigError("the heads must divide the width");
  return std::make_unique<Gpt2>(config);
}

}  // namespace hyperion::models
