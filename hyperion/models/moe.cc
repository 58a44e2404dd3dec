#include "hyperion/models/moe.h"

#include <ATen/ops/cat.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/models/decoder_parts.h"
#include "hyperion/nn/context.h"
#include "hyperion/nn/experts.h"
#include "hyperion/nn/router_losses.h"
#include "hyperion/nn/shards.h"

namespace hyperion::models {
namespace {

bool is_mixtral(const MoeConfig& config) { return config.decoder.model_type == "mixtral"; }

nn::MixtureShape mixture_shape(const MoeConfig& config) {
  auto expert = gated_shape(config.decoder, config.expert_inner, /*bias=*/false);
  if (is_mixtral(config)) expert.gate = "w1", expert.up = "w3", expert.down = "w2";
  return {expert, config.experts, config.choices, config.normalised, config.shared_inner, config.capacity_factor};
}

FeedForwardPart feed_forward(const MoeConfig& config) {
  return {is_mixtral(config) ? "block_sparse_moe" : "mlp",
          [config](int64_t layer, auto norm) -> std::shared_ptr<nn::Module> {
            if (config.sparse(layer)) return std::make_shared<nn::MixtureOfExperts>(mixture_shape(config), norm);
            return std::make_shared<nn::GatedFeedForward>(
                gated_shape(config.decoder, config.decoder.inner, /*bias=*/false), norm);
          }};
}

class Moe final : public CausalDecoder {
 public:
  explicit Moe(const MoeConfig& config) : CausalDecoder(config.decoder, feed_forward(config)), config_(config) {}

  void begin_blocks(const at::Tensor& hidden, nn::Pass& pass) override {
    pass.router_logits.clear();
    pass.router_sums.reset();
    pass.auxiliary_loss.reset();
    CausalDecoder::begin_blocks(hidden, pass);
  }
  at::Tensor last(const at::Tensor& hidden, nn::Pass& pass) override {
    const auto logits = CausalDecoder::last(hidden, pass);
    if (pass.cache == nullptr) pass.auxiliary_loss = auxiliary_loss(hidden, pass);
    return logits;
  }
  at::Tensor last_loss(const at::Tensor& hidden, const at::Tensor& targets, nn::Pass& pass) override {
    const auto loss = CausalDecoder::last_loss(hidden, targets, pass);
    if (!pass.auxiliary_loss.defined()) pass.auxiliary_loss = auxiliary_loss(hidden, pass);
    return loss;
  }

  int64_t beside_size() const override {
    bool sparse = false;
    for (int64_t layer = 0; layer < config_.decoder.layers; ++layer) sparse = sparse || config_.sparse(layer);
    return sparse && (config_.balance || config_.z_coefficient > 0) ? nn::router_sums_size(config_.experts) : 0;
  }
  at::Tensor beside(nn::Pass& pass) override {
    return nn::router_sums(pass.router_sums, pass.router_logits, config_.choices, pass.token_mask,
                           /*squares=*/config_.z_coefficient > 0);
  }
  void put_beside(const at::Tensor& beside, nn::Pass& pass) override { pass.router_sums = beside; }

  std::string config_json() const override { return to_json(config_); }
  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }
  std::vector<strategy::CutRule> cuts() const override { return cuts_of(config_); }
  strategy::TokenMixing mixing() const override {
    auto mixing = CausalDecoder::mixing();
    mixing.crowding = config_.capacity_factor > 0;
    return mixing;
  }
  strategy::ExpertUse experts() const override { return {config_.experts, config_.choices, config_.capacity_factor}; }
  double uses(const std::string& path) const override {  // a token's experts are as likely these as others
    const bool routed = path.find(".experts.") != path.npos;
    return routed ? static_cast<double>(config_.choices) / static_cast<double>(config_.experts) : 1;
  }

 private:
  at::Tensor auxiliary_loss(const at::Tensor& hidden, nn::Pass& pass) {
    if (beside_size() == 0) return {};
    const auto own = beside(pass);
    if (!own.defined()) return {};  // all sparse layers ran elsewhere, and nothing was handed on
    auto tokens = nn::counted_tokens(hidden.flatten(0, 1), pass.token_mask);
    if (!pass.token_mask.defined()) tokens = tokens.mul(nn::length_of_all(hidden, pass) / hidden.size(1));
    auto sums = own;
    if (pass.context != nullptr) {  // all count the same layers, each of its own tokens
      const int64_t last = own.numel() - 1;
      const auto all = nn::sum_over_context(at::cat({own.narrow(0, 0, last), tokens.reshape({1})}), pass);
      sums = at::cat({all.narrow(0, 0, last), own.narrow(0, last, 1)}), tokens = all[last];
    }
    at::Tensor loss;
    if (config_.balance) loss = nn::balance_loss(sums, tokens).mul(config_.balance_coefficient);
    if (config_.z_coefficient > 0) {
      const auto z = nn::router_z_loss(sums, tokens).mul(config_.z_coefficient);
      loss = loss.defined() ? loss.add(z) : z;
    }
    return loss.defined() ? nn::share_in_context(loss, pass) : loss;
  }

  MoeConfig config_;
};

}  // namespace

bool MoeConfig::sparse(int64_t layer) const {
  return (layer + 1) % sparse_step == 0 &&
         std::find(dense_layers.begin(), dense_layers.end(), layer) == dense_layers.end();
}

std::unique_ptr<Model> make_moe(const MoeConfig& config) {
  if (config.choices < 1 || config.choices > config.experts || config.sparse_step < 1)
    throw base::ConfigError("a token needs from 1 to all of the experts, and the step between sparse layers 1 or more");
  if (is_mixtral(config) &&
      (!config.normalised || config.shared_inner != 0 || config.sparse_step != 1 || !config.dense_layers.empty()))
    throw base::ConfigError("Mixtral has neither a shared expert, dense layers, nor weights that are not normalised",
                            "use qwen2_moe");
  if (!is_mixtral(config) && config.shared_inner < 1)
    throw base::ConfigError("Qwen2-MoE has a shared expert", "give its inner width");
  return std::make_unique<Moe>(config);
}

}  // namespace hyperion::models
