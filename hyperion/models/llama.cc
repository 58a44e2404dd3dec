#include "hyperion/models/llama.h"

#include <algorithm>

#include "hyperion/models/decoder_parts.h"

namespace hyperion::models {
namespace {

FeedForwardPart feed_forward(const LlamaConfig& config) {
  return {"mlp", [config](int64_t, auto norm) {
            return std::make_shared<nn::GatedFeedForward>(gated_shape(config, config.inner, config.feed_forward_bias),
                                                          std::move(norm));
          }};
}

class Llama final : public CausalDecoder {
 public:
  explicit Llama(const LlamaConfig& config) : CausalDecoder(config, feed_forward(config)), config_(config) {}
  std::string config_json() const override { return to_json(config_); }
  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }
  std::vector<strategy::CutRule> cuts() const override { return cuts_of(config_); }

 private:
  LlamaConfig config_;
};

}  // namespace

int64_t LlamaConfig::reach() const {
  constexpr double kFarthest = 1 << 24;
  if (rope.scaling == nn::RopeScaling::none) return context;
  const bool own = rope.scaling == nn::RopeScaling::linear || rope.scaling == nn::RopeScaling::dynamic;
  const auto trained = static_cast<double>(own ? context : rope.original_context);
  return std::max(context, static_cast<int64_t>(std::min(kFarthest, trained * rope.factor)));
}

std::unique_ptr<Model> make_llama(const LlamaConfig& config) { return std::make_unique<Llama>(config); }

}  // namespace hyperion::models
