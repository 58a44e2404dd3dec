#include "hyperion/models/vit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/parted_tree.h"
#include "hyperion/nn/activation.h"
#include "hyperion/nn/attention.h"
#include "hyperion/nn/fused.h"
#include "hyperion/nn/image_layers.h"
#include "hyperion/nn/layers.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

// Hugging Face cuts the normal of the class token and the positions off at 2, a hundred deviations out: it is this one.
const Init kInit = Init::normal(0.02);

std::shared_ptr<nn::Linear> vit_linear(int64_t in, int64_t out, bool bias = true) {
  return std::make_shared<nn::Linear>(in, out, bias, kInit);
}

class Patches final : public nn::Module {
 public:
  explicit Patches(const VitConfig& config)
      : projection_(register_module(
            "projection", std::make_shared<nn::PatchProjection>(config.channels, config.width, config.patch_height,
                                                                config.patch_width, kInit))) {}
  at::Tensor forward(const at::Tensor& images, Pass& pass) override { return run(*projection_, images, pass); }

 private:
  std::shared_ptr<nn::PatchProjection> projection_;
};

class Embeddings final : public nn::Module {
 public:
  explicit Embeddings(const VitConfig& config)
      : config_(config),
        rows_(config.image_height / config.patch_height),
        columns_(config.image_width / config.patch_width),
        cls_token_(parameter("cls_token", {1, 1, config.width}, kInit)),
        position_embeddings_(parameter("position_embeddings", {1, rows_ * columns_ + 1, config.width}, kInit)),
        patch_embeddings_(register_module("patch_embeddings", std::make_shared<Patches>(config))) {}

  at::Tensor forward(const at::Tensor& images, Pass& pass) override {
    const auto patches = run(*patch_embeddings_, images, pass);
    const auto tokens = at::cat({cls_token_.expand({images.size(0), -1, -1}), patches}, 1);
    return nn::dropout(tokens + places_of(images), config_.dropout, "embd", 0, pass);
  }

 private:
  at::Tensor places_of(const at::Tensor& images) const {
    const int64_t rows = images.size(2) / config_.patch_height, columns = images.size(3) / config_.patch_width;
    if (rows == rows_ && columns == columns_) return position_embeddings_;
    const auto grid = position_embeddings_.narrow(1, 1, rows_ * columns_);
    return at::cat({position_embeddings_.narrow(1, 0, 1), nn::resample_places(grid, rows_, columns_, rows, columns)},
                   1);
  }

  VitConfig config_;
  int64_t rows_, columns_;
  at::Tensor cls_token_, position_embeddings_;
  std::shared_ptr<Patches> patch_embeddings_;
};

class VitAttention final : public nn::Module {
 public:
  VitAttention(const VitConfig& config, size_t layer)
      : head_width_(config.width / config.heads), layer_(layer), dropout_(config.attention_dropout) {
    const bool bias = config.query_key_value_bias;
    q_proj_ = register_module("q_proj", vit_linear(config.width, config.width, bias));
    k_proj_ = register_module("k_proj", vit_linear(config.width, config.width, bias));
    v_proj_ = register_module("v_proj", vit_linear(config.width, config.width, bias));
    o_proj_ = register_module("o_proj", vit_linear(config.width, config.width));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto split = [&](nn::Linear& projection) {
      return run(projection, input, pass).unflatten(2, {-1, head_width_}).transpose(1, 2);
    };
    const auto mixed = nn::attend(split(*q_proj_), split(*k_proj_), split(*v_proj_), layer_, pass,
                                  {.causal = false, .dropout = dropout_});
    return run(*o_proj_, mixed.transpose(1, 2).flatten(2), pass);
  }

  // residual + the whole of it on norm(residual); undefined where the pass does not allow it.
  at::Tensor fused(const at::Tensor& residual, const nn::LayerNorm& norm, const nn::Dropped& dropped,
                   const Pass& pass) const {
    if (!nn::fuses(pass, dropout_, {q_proj_.get(), k_proj_.get(), v_proj_.get()}) ||
        !nn::fuses(pass, dropout_, {o_proj_.get()}))
      return {};
    const auto [hidden, packed] =
        nn::norm_linear(residual, norm.weights(), {q_proj_.get(), k_proj_.get(), v_proj_.get()});
    const int64_t heads = packed.size(2) / (3 * head_width_);
    return nn::linear_residual(nn::packed_attention(packed, heads, heads, {.causal = false}, pass), *o_proj_, hidden,
                               dropped);
  }

 private:
  void lay_out() override { nn::lay_together({q_proj_.get(), k_proj_.get(), v_proj_.get()}); }

  int64_t head_width_;
  size_t layer_;
  double dropout_;
  std::shared_ptr<nn::Linear> q_proj_, k_proj_, v_proj_, o_proj_;
};

class VitFeedForward final : public nn::Module {
 public:
  explicit VitFeedForward(const VitConfig& config)
      : fc1_(register_module("fc1", vit_linear(config.width, config.inner))),
        fc2_(register_module("fc2", vit_linear(config.inner, config.width))) {}
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return run(*fc2_, nn::gelu_erf(run(*fc1_, input, pass), pass), pass);
  }

  at::Tensor fused(const at::Tensor& residual, const nn::LayerNorm& norm, const nn::Dropped& dropped,
                   const Pass& pass) const {
    if (!nn::fuses(pass, 0, {fc1_.get(), fc2_.get()})) return {};
    const auto [hidden, inner] = nn::norm_linear(residual, norm.weights(), {fc1_.get()});
    return nn::activated_linear_residual(inner, nn::Activation::gelu_erf, *fc2_, hidden, dropped);
  }

 private:
  std::shared_ptr<nn::Linear> fc1_, fc2_;
};

class VitBlock final : public nn::Module {
 public:
  VitBlock(const VitConfig& config, size_t layer) : layer_(layer), dropout_(config.dropout) {
    layernorm_before_ =
        register_module("layernorm_before", std::make_shared<nn::LayerNorm>(config.width, config.epsilon));
    attention_ = register_module("attention", std::make_shared<VitAttention>(config, layer));
    layernorm_after_ =
        register_module("layernorm_after", std::make_shared<nn::LayerNorm>(config.width, config.epsilon));
    mlp_ = register_module("mlp", std::make_shared<VitFeedForward>(config));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    at::Tensor middle = attention_->fused(input, *layernorm_before_, nn::dropped(dropout_, "attn", layer_, pass), pass);
    if (!middle.defined()) {
      const auto mixed = run(*attention_, run(*layernorm_before_, input, pass), pass);
      middle = input + nn::dropout(mixed, dropout_, "attn", layer_, pass);
    }
    const at::Tensor output = mlp_->fused(middle, *layernorm_after_, nn::dropped(dropout_, "mlp", layer_, pass), pass);
    if (output.defined()) return output;
    const auto fed = run(*mlp_, run(*layernorm_after_, middle, pass), pass);
    return middle + nn::dropout(fed, dropout_, "mlp", layer_, pass);
  }

 private:
  size_t layer_;
  double dropout_;
  std::shared_ptr<nn::LayerNorm> layernorm_before_, layernorm_after_;
  std::shared_ptr<VitAttention> attention_;
  std::shared_ptr<VitFeedForward> mlp_;
};

class Vit final : public PartedTree {
 public:
  explicit Vit(const VitConfig& config) : config_(config) {
    const auto vit = register_module("vit", std::make_shared<nn::Branch>());
    embeddings_ = vit->register_module("embeddings", std::make_shared<Embeddings>(config));
    layers_ = vit->register_module("layers", std::make_shared<nn::Stack>(config.layers, [&](int64_t i) {
                                     return std::make_shared<VitBlock>(config, static_cast<size_t>(i));
                                   }));
    layernorm_ = vit->register_module("layernorm", std::make_shared<nn::LayerNorm>(config.width, config.epsilon));
    classifier_ = register_module("classifier", vit_linear(config.width, config.classes));
  }

  at::Tensor first(const at::Tensor& images, Pass& pass) override {
    check_images(images, config_.channels, config_.patch_height, config_.patch_width);
    return run(*embeddings_, images, pass);
  }
  nn::Stack& blocks() override { return *layers_; }
  at::Tensor last(const at::Tensor& hidden, Pass& pass) override {
    return run(*classifier_, run(*layernorm_, hidden, pass).select(1, 0), pass);
  }

  Input input() const override { return Input::images; }
  std::string config_json() const override { return to_json(config_); }
  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }
  std::vector<strategy::CutRule> cuts() const override { return cuts_of(config_); }
  double uses(const std::string& path) const override {
    return path == "classifier" ? 1 : static_cast<double>(tokens_of(config_));
  }
  std::string stored_name(const std::string& name) const override;

 private:
  VitConfig config_;
  std::shared_ptr<Embeddings> embeddings_;
  std::shared_ptr<nn::Stack> layers_;
  std::shared_ptr<nn::LayerNorm> layernorm_;
  std::shared_ptr<nn::Linear> classifier_;
};

// transformers 5 renamed the layers of its classes, and still writes the names that all published files have.
std::string Vit::stored_name(const std::string& name) const {
  constexpr std::pair<const char*, const char*> kParts[] = {{"vit.layers.", "vit.encoder.layer."},
                                                            {".attention.q_proj.", ".attention.attention.query."},
                                                            {".attention.k_proj.", ".attention.attention.key."},
                                                            {".attention.v_proj.", ".attention.attention.value."},
                                                            {".attention.o_proj.", ".attention.output.dense."},
                                                            {".mlp.fc1.", ".intermediate.dense."},
                                                            {".mlp.fc2.", ".output.dense."}};
  std::string stored = name;
  for (const auto& [part, written] : kParts)
    if (const size_t at = stored.find(part); at != std::string::npos)
      stored.replace(at, std::string_view(part).size(), written);
  return stored;
}

void check_vit(const VitConfig& config) {
  if (config.width % config.heads != 0)
    throw base::ConfigError(base::format("{} heads do not divide a width of {}", config.heads, config.width),
                            "choose a width that is a multiple of the heads, usually 64 a head");
  if (config.patch_height > config.image_height || config.patch_width > config.image_width)
    throw base::ConfigError(
        base::format("patches of {} x {} pixels do not fit into images of {} x {}", config.patch_height,
                     config.patch_width, config.image_height, config.image_width),
        "choose smaller patches, usually 16 pixels, or 4 for images of 32");
}

}  // namespace

std::unique_ptr<Model> make_vit(const VitConfig& config) {
  check_vit(config);
  return std::make_unique<Vit>(config);
}

}  // namespace hyperion::models
