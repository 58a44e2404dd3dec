#include "hyperion/models/adapt.h"

#include <torch/nn/module.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::models {
namespace {

class Adapted final : public Model {
 public:
  Adapted(std::shared_ptr<torch::nn::Module> module, std::function<at::Tensor(const at::Tensor&)> forward)
      : module_(std::move(module)), forward_(std::move(forward)) {}

  at::Tensor logits(const at::Tensor& input, nn::Pass& pass) override {
    if (module_->is_training() != pass.training) module_->train(pass.training);
    return forward_(input);
  }

  std::vector<Parameter> parameters() override {
    std::vector<Parameter> list;
    for (const auto& item : module_->named_parameters())
      list.push_back({item.key(), item.value(), {.decay = item.value().dim() > 1}});
    return list;
  }
  std::vector<Buffer> buffers() override {
    std::vector<Buffer> list;
    for (const auto& item : module_->named_buffers()) list.push_back({item.key(), item.value()});
    return list;
  }

  std::vector<at::Tensor> held() override {
    auto list = module_->parameters();
    for (const auto& buffer : module_->buffers()) list.push_back(buffer);
    return list;
  }
  void initialise(uint64_t) override {}
  void to(at::Device device, at::ScalarType type) override {
    for (auto& parameter : module_->parameters()) parameter.set_data(parameter.data().to(device, type));
    for (auto& buffer : module_->buffers()) buffer.set_data(buffer.to(device));
  }
  nn::Adapters& adapters() override { throw no_layers("adapters"); }
  void quantize() override { throw no_layers("4-bit weights"); }
  std::string config_json() const override { return R"({"model_type": "adapted"})"; }
  strategy::ModelShape shape(int64_t) const override {
    strategy::ModelShape shape;
    for (const auto& parameter : module_->parameters()) shape.parameters += parameter.numel();
    shape.trained = shape.parameters;
    return shape;
  }

 private:
  static base::ConfigError no_layers(const char* what) {
    return base::ConfigError(base::format("{} need layers of ours, and this is a module of your own", what),
                             "build it of nn::Linear, see docs/add_a_model.md");
  }

  std::shared_ptr<torch::nn::Module> module_;
  std::function<at::Tensor(const at::Tensor&)> forward_;
};

}  // namespace

std::unique_ptr<Model> adapt(std::shared_ptr<torch::nn::Module> module,
                             std::function<at::Tensor(const at::Tensor& input)> forward) {
  return std::make_unique<Adapted>(std::move(module), std::move(forward));
}

}  // namespace hyperion::models
