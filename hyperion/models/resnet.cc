#include "hyperion/models/resnet.h"

#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/relu.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/resnet_plan.h"
#include "hyperion/models/tree.h"
#include "hyperion/nn/image_layers.h"
#include "hyperion/nn/layers.h"

namespace hyperion::models {
namespace {

using nn::Init;
using nn::Pass;

// Keeps the variance of gradients from layer to layer (He et al., 2015, by the outputs).
Init conv_init(const Convolution& conv) {
  return Init::normal(std::sqrt(2.0 / static_cast<double>(conv.out * conv.kernel * conv.kernel)));
}

// Small, so that the first guess is an even one (Goyal et al., 2017).
const Init kHeadInit = Init::normal(0.01);

class ConvLayer final : public nn::Module {
 public:
  ConvLayer(const Convolution& conv, bool activate) : activate_(activate) {
    convolution_ = register_module(
        "convolution", std::make_shared<nn::Conv2d>(conv.in, conv.out, conv.kernel, conv.stride, conv_init(conv)));
    normalization_ = register_module("normalization", std::make_shared<nn::BatchNorm2d>(conv.out));
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    return normalization_->then(run(*convolution_, input, pass), {}, activate_, pass);
  }
  // relu(what forward gives before its activation + residual)
  at::Tensor joining(const at::Tensor& input, const at::Tensor& residual, Pass& pass) {
    return normalization_->then(run(*convolution_, input, pass), residual, /*relu=*/true, pass);
  }

 private:
  bool activate_;
  std::shared_ptr<nn::Conv2d> convolution_;
  std::shared_ptr<nn::BatchNorm2d> normalization_;
};

// Modules one after another that are no units of their own, as the blocks of a Stack are.
class Series final : public nn::Module {
 public:
  void add(const std::string& name, std::shared_ptr<nn::Module> module) {
    parts_.push_back(register_module(name, std::move(module)));
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    at::Tensor hidden = input;
    for (auto& part : parts_) hidden = run(*part, hidden, pass);
    return hidden;
  }

 private:
  std::vector<std::shared_ptr<nn::Module>> parts_;
};

class ResnetBlock final : public nn::Module {
 public:
  explicit ResnetBlock(const ResidualBlock& plan) {
    for (const auto& conv : plan.shortcut)
      shortcut_ = register_module("shortcut", std::make_shared<ConvLayer>(conv, /*activate=*/false));
    layer_ = register_module("layer", std::make_shared<Series>());
    for (size_t i = 0; i < plan.layers.size(); ++i) {
      layers_.push_back(std::make_shared<ConvLayer>(plan.layers[i], i + 1 < plan.layers.size()));
      layer_->add(std::to_string(i), layers_.back());
    }
  }

  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto aside = nn::second_way(input);
    at::Tensor hidden = input;
    for (size_t i = 0; i + 1 < layers_.size(); ++i) hidden = run(*layers_[i], hidden, pass);
    return layers_.back()->joining(hidden, shortcut_ ? run(*shortcut_, aside, pass) : aside, pass);
  }

 private:
  std::shared_ptr<ConvLayer> shortcut_;  // none where the input is added as it is
  std::shared_ptr<Series> layer_;
  std::vector<std::shared_ptr<ConvLayer>> layers_;  // of `layer_`
};

class Stage final : public nn::Module {
 public:
  Stage(const ResnetConfig& config, size_t stage) {
    const auto blocks = blocks_of(config, stage);
    layers_ = register_module("layers", std::make_shared<nn::Stack>(config.depths[stage], [&](int64_t i) {
                                return std::make_shared<ResnetBlock>(blocks[static_cast<size_t>(i)]);
                              }));
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override { return run(*layers_, input, pass); }

 private:
  std::shared_ptr<nn::Stack> layers_;
};

class Stem final : public nn::Module {
 public:
  explicit Stem(const ResnetConfig& config) : pooled_(config.stem == ResnetStem::imagenet) {
    embedder_ = register_module("embedder", std::make_shared<ConvLayer>(stem_of(config), /*activate=*/true));
  }
  at::Tensor forward(const at::Tensor& images, Pass& pass) override {
    const auto hidden = run(*embedder_, images, pass);
    return pooled_ ? at::max_pool2d(hidden, 3, 2, 1) : hidden;
  }

 private:
  bool pooled_;
  std::shared_ptr<ConvLayer> embedder_;
};

class ResnetEncoder final : public nn::Module {
 public:
  explicit ResnetEncoder(const ResnetConfig& config) {
    stages_ = register_module("stages", std::make_shared<Series>());
    for (size_t i = 0; i < config.depths.size(); ++i)
      stages_->add(std::to_string(i), std::make_shared<Stage>(config, i));
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override { return run(*stages_, input, pass); }

 private:
  std::shared_ptr<Series> stages_;
};

class Backbone final : public nn::Module {
 public:
  explicit Backbone(const ResnetConfig& config)
      : embedder_(register_module("embedder", std::make_shared<Stem>(config))),
        encoder_(register_module("encoder", std::make_shared<ResnetEncoder>(config))) {}
  at::Tensor forward(const at::Tensor& images, Pass& pass) override {
    return run(*encoder_, run(*embedder_, images, pass), pass).mean({2, 3});
  }

 private:
  std::shared_ptr<Stem> embedder_;
  std::shared_ptr<ResnetEncoder> encoder_;
};

// One part: what crosses its stages has another shape at each, and it is never so large that it must be cut.
class Resnet final : public Tree {
 public:
  explicit Resnet(const ResnetConfig& config) : config_(config) {
    resnet_ = register_module("resnet", std::make_shared<Backbone>(config));
    classifier_ = register_module("classifier", std::make_shared<Series>());
    classifier_->add("1", std::make_shared<nn::Linear>(config.widths.back(), config.classes, true, kHeadInit));
  }

  at::Tensor forward(const at::Tensor& images, Pass& pass) override {
    return run(*classifier_, run(*resnet_, images.contiguous(at::MemoryFormat::ChannelsLast), pass), pass);
  }

  at::Tensor logits(const at::Tensor& images, Pass& pass) override {
    check_images(images, config_.channels, 1, 1);
    return forward(images, pass);
  }

  Input input() const override { return Input::images; }
  std::string config_json() const override { return to_json(config_); }
  strategy::ModelShape shape(int64_t length) const override { return shape_of(config_, length); }
  std::vector<strategy::CutRule> cuts() const override { return cuts_of(config_); }

 private:
  ResnetConfig config_;
  std::shared_ptr<Backbone> resnet_;
  std::shared_ptr<Series> classifier_;
};

void check_resnet(const ResnetConfig& config) {
  if (config.depths.empty() || config.depths.size() != config.widths.size())
    throw base::ConfigError(
        base::format("{} depths for {} widths of stages", config.depths.size(), config.widths.size()),
        "give each stage a depth and a width");
  for (const int64_t width : config.widths)
    if (config.bottleneck && width < 4)
      throw base::ConfigError(base::format("a bottleneck of {} channels has no quarter", width), "use at least 4");
}

}  // namespace

std::unique_ptr<Model> make_resnet(const ResnetConfig& config) {
  check_resnet(config);
  return std::make_unique<Resnet>(config);
}

}  // namespace hyperion::models
