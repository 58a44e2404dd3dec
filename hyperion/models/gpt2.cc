#include "hyperion/models/gpt2.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/models/parted_tree.h"
#include "hyperion/nn/activation.h"
#include "hyperion/nn/attention.h"
#include "hyperion/nn/fused.h"
#include "hyperion/nn/layers.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

constexpr double kGpt2Deviation = 0.02;

// Residual projections start smaller, by the number of residual additions, so that depth does not grow the variance.
Init residual_init(const Gpt2Config& config) {
  return Init::normal(kGpt2Deviation / std::sqrt(2.0 * static_cast<double>(config.layers)));
}

class Gpt2Attention final : public nn::Module {
 public:
  Gpt2Attention(const Gpt2Config& config, size_t layer)
      : head_width_(config.width / config.heads), layer_(layer), dropout_(config.dropout) {
    c_attn_ = register_module(
        "c_attn", std::make_shared<nn::LinearInOut>(config.width, 3 * config.width, Init::normal(kGpt2Deviation)));
    c_proj_ =
        register_module("c_proj", std::make_shared<nn::LinearInOut>(config.width, config.width, residual_init(config)));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto packed = run(*c_attn_, input, pass);
    const int64_t batch = input.size(0), length = input.size(1), heads = heads_in(packed);
    const auto parts = packed.view({batch, length, 3, heads, head_width_}).permute({2, 0, 3, 1, 4});
    const auto mixed = nn::attend(parts[0], parts[1], parts[2], layer_, pass);
    const auto output = run(*c_proj_, mixed.transpose(1, 2).reshape({batch, length, heads * head_width_}), pass);
    return nn::dropout(output, dropout_, "attn", layer_, pass);
  }

  // residual + the whole of it on norm(residual); undefined where the pass does not allow it.
  at::Tensor fused(const at::Tensor& residual, const nn::LayerNorm& norm, const Pass& pass) const {
    if (!nn::fuses(pass, 0, {c_attn_.get(), c_proj_.get()})) return {};
    const auto [hidden, packed] = nn::norm_linear(residual, norm.weights(), {c_attn_.get()});
    const int64_t heads = heads_in(packed);
    return nn::linear_residual(nn::packed_attention(packed, heads, heads, {}, pass), *c_proj_, hidden,
                               nn::dropped(dropout_, "attn", layer_, pass));
  }

 private:
  int64_t heads_in(const at::Tensor& packed) const { return packed.size(2) / (3 * head_width_); }

  int64_t head_width_;
  size_t layer_;
  double dropout_;
  std::shared_ptr<nn::LinearInOut> c_attn_, c_proj_;
};

class Gpt2FeedForward final : public nn::Module {
 public:
  Gpt2FeedForward(const Gpt2Config& config, size_t layer) : layer_(layer), dropout_(config.dropout) {
    const int64_t inner = config.inner > 0 ? config.inner : 4 * config.width;
    c_fc_ =
        register_module("c_fc", std::make_shared<nn::LinearInOut>(config.width, inner, Init::normal(kGpt2Deviation)));
    c_proj_ = register_module("c_proj", std::make_shared<nn::LinearInOut>(inner, config.width, residual_init(config)));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto output = run(*c_proj_, nn::gelu(run(*c_fc_, input, pass), pass), pass);
    return nn::dropout(output, dropout_, "mlp", layer_, pass);
  }

  at::Tensor fused(const at::Tensor& residual, const nn::LayerNorm& norm, const Pass& pass) const {
    if (!nn::fuses(pass, 0, {c_fc_.get(), c_proj_.get()})) return {};
    const auto [hidden, inner] = nn::norm_linear(residual, norm.weights(), {c_fc_.get()});
    return nn::activated_linear_residual(inner, nn::Activation::gelu_tanh, *c_proj_, hidden,
                                         nn::dropped(dropout_, "mlp", layer_, pass));
  }

 private:
  size_t layer_;
  double dropout_;
  std::shared_ptr<nn::LinearInOut> c_fc_, c_proj_;
};

class Gpt2Block final : public nn::Module {
 public:
  Gpt2Block(const Gpt2Config& config, size_t layer) {
    ln_1_ = register_module("ln_1", std::make_shared<nn::LayerNorm>(config.width, config.epsilon));
    attn_ = register_module("attn", std::make_shared<Gpt2Attention>(config, layer));
    ln_2_ = register_module("ln_2", std::make_shared<nn::LayerNorm>(config.width, config.epsilon));
    mlp_ = register_module("mlp", std::make_shared<Gpt2FeedForward>(config, layer));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    at::Tensor middle = attn_->fused(input, *ln_1_, pass);
    if (!middle.defined()) middle = input + run(*attn_, run(*ln_1_, input, pass), pass);
    const at::Tensor output = mlp_->fused(middle, *ln_2_, pass);
    return output.defined() ? output : middle + run(*mlp_, run(*ln_2_, middle, pass), pass);
  }

 private:
  std::shared_ptr<nn::LayerNorm> ln_1_, ln_2_;
  std::shared_ptr<Gpt2Attention> attn_;
  std::shared_ptr<Gpt2FeedForward> mlp_;
};

class Gpt2 final : public PartedTree {
 public:
  explicit Gpt2(const Gpt2Config& config) : config_(config) {
    const auto embedding = [&](int64_t count) {
      return std::make_shared<nn::Embedding>(count, config.width, Init::normal(kGpt2Deviation));
    };
    const auto transformer = register_module("transformer", std::make_shared<nn::Branch>());
    wte_ = transformer->register_module("wte", embedding(config.vocabulary));
    wpe_ = transformer->register_module("wpe", embedding(config.context));
    h_ = transformer->register_module("h", std::make_shared<nn::Stack>(config.layers, [&](int64_t i) {
                                        return std::make_shared<Gpt2Block>(config, i);
                                      }));
    ln_f_ = transformer->register_module("ln_f", std::make_shared<nn::LayerNorm>(config.width, config.epsilon));
    if (!config.tied)
      lm_head_ = register_module("lm_head", std::make_shared<nn::Linear>(config.width, config.vocabulary, false,
                                                                         Init::normal(kGpt2Deviation)));
  }

  at::Tensor first(const at::Tensor& ids, Pass& pass) override {
    check_length(ids, pass);
    return nn::dropout(embedded(ids, pass), config_.embedding_dropout, "embd", 0, pass);
  }
  nn::Stack& blocks() override { return *h_; }
  at::Tensor last(const at::Tensor& hidden, Pass& pass) override {
    const auto normed = nn::wanted(run(*ln_f_, hidden, pass), pass);
    return lm_head_ ? run(*lm_head_, normed, pass) : at::matmul(normed, wte_->weight().t());
  }
  at::Tensor last_loss(const at::Tensor& hidden, const at::Tensor& targets, Pass& pass) override {
    if (!pass.fused_blocks || pass.right != nullptr || (lm_head_ && !lm_head_->plain()))
      return PartedTree::last_loss(hidden, targets, pass);
    return nn::linear_cross_entropy(run(*ln_f_, hidden, pass), lm_head_ ? lm_head_->weight() : wte_->weight(), targets);
  }

  std::string config_json() const override { return to_json(config_); }
  int64_t context() const override { return config_.context; }

  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }
  std::vector<strategy::CutRule> cuts() const override { return cuts_of(config_); }

 private:
  void check_length(const at::Tensor& ids, const Pass& pass) const {
    const int64_t seen = (pass.cache != nullptr ? pass.cache->length() : 0) + ids.size(1);
    if (!pass.positions.defined() && seen > config_.context)
      throw base::ConfigError(base::format("{} tokens are more than the model's context of {}", seen, config_.context),
                              "give less text or ask for fewer new tokens");
  }

  at::Tensor embedded(const at::Tensor& ids, Pass& pass) {
    const int64_t first = pass.cache != nullptr ? pass.cache->length() : 0;
    if (!pass.reference && !pass.positions.defined()) return wte_->forward_at(ids, *wpe_, first);
    const auto positions =
        pass.positions.defined() ? pass.positions : at::arange(first, first + ids.size(1), ids.options());
    return run(*wte_, ids, pass) + run(*wpe_, positions, pass);
  }

  Gpt2Config config_;
  std::shared_ptr<nn::Embedding> wte_, wpe_;
  std::shared_ptr<nn::Stack> h_;
  std::shared_ptr<nn::LayerNorm> ln_f_;
  std::shared_ptr<nn::Linear> lm_head_;  // none where the output is tied
};

}  // namespace

std::unique_ptr<Model> make_gpt2(const Gpt2Config& config) {
  if (config.width % config.heads != 0) throw base::ConfigError("the heads must divide the width");
  return std::make_unique<Gpt2>(config);
}

}  // namespace hyperion::models
