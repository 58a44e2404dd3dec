#include "hyperion/models/vit.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/parted_tree.h"
#include "hyperion/nn/image_layers.h"
#include "hyperion/nn/pre_norm.h"
#include "hyperion/nn/shards.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

// Hugging Face cuts the normal of the class token and the positions off at 2, a hundred deviations out as they are
// published: it is this one.
Init vit_init(const VitConfig& config) { return Init::normal(config.init_std); }

std::shared_ptr<nn::Linear> vit_linear(const VitConfig& config, int64_t in, int64_t out, bool bias = true) {
  return std::make_shared<nn::Linear>(in, out, bias, vit_init(config));
}

class Patches final : public nn::Module {
 public:
  explicit Patches(const VitConfig& config)
      : projection_(register_module(
            "projection", std::make_shared<nn::PatchProjection>(config.channels, config.width, config.patch_height,
                                                                config.patch_width, vit_init(config)))) {}
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
        cls_token_(parameter("cls_token", {1, 1, config.width}, vit_init(config))),
        position_embeddings_(
            parameter("position_embeddings", {1, rows_ * columns_ + 1, config.width}, vit_init(config))),
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
  VitAttention(const VitConfig& config, size_t layer, std::shared_ptr<nn::Norm> norm)
      : shape_{.head_width = config.width / config.heads,
               .how = {.causal = false, .dropout = config.attention_dropout}},
        layer_(layer),
        dropout_{config.dropout, "attn", layer},
        half_{std::move(norm), inputs(config),
              register_module("o_proj", vit_linear(config, config.width, config.width))} {}

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto projected = half_.in(input, pass);
    return half_.out(projected, nn::attend(projected, shape_, layer_, pass), pass, dropout_);
  }

 private:
  void lay_out() override { half_.lay_out(); }

  nn::Projections inputs(const VitConfig& config) {
    nn::Projections list;
    for (const auto* name : {"q_proj", "k_proj", "v_proj"})
      list.push_back(
          register_module(name, vit_linear(config, config.width, config.width, config.query_key_value_bias)));
    return list;
  }

  nn::SelfAttention shape_;
  size_t layer_;
  nn::PartDropout dropout_;
  nn::PreNorm half_;
};

class VitFeedForward final : public nn::Module {
 public:
  VitFeedForward(const VitConfig& config, size_t layer, std::shared_ptr<nn::Norm> norm)
      : dropout_{config.dropout, "mlp", layer},
        half_{std::move(norm),
              {register_module("fc1", vit_linear(config, config.width, config.inner))},
              register_module("fc2", vit_linear(config, config.inner, config.width))} {}

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return half_.out(half_.in(input, pass), nn::Activation::gelu_erf, pass, dropout_);
  }

 private:
  nn::PartDropout dropout_;
  nn::PreNorm half_;
};

class VitBlock final : public nn::Module {
 public:
  VitBlock(const VitConfig& config, size_t layer) {
    const auto norm = [&] { return std::make_shared<nn::LayerNorm>(config.width, config.epsilon); };
    const auto before = register_module("layernorm_before", norm());
    attention_ = register_module("attention", std::make_shared<VitAttention>(config, layer, before));
    const auto after = register_module("layernorm_after", norm());
    mlp_ = register_module("mlp", std::make_shared<VitFeedForward>(config, layer, after));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return run(*mlp_, run(*attention_, input, pass), pass);
  }

 private:
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
    classifier_ = register_module("classifier", vit_linear(config, config.width, config.classes));
  }

  at::Tensor first(const at::Tensor& images, Pass& pass) override {
    check_images(images, config_.channels, config_.patch_height, config_.patch_width);
    return nn::own_tokens(run(*embeddings_, images, pass), pass);
  }
  nn::Stack& blocks() override { return *layers_; }
  at::Tensor last(const at::Tensor& hidden, Pass& pass) override {
    const auto normed = run(*layernorm_, hidden, pass);
    if (!pass.by_sequence) return run(*classifier_, normed.select(1, 0), pass);
    return nn::one_share(run(*classifier_, nn::into_shards(normed, pass).select(1, 0), pass), pass);
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
