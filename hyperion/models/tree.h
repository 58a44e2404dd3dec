// A model that is one module tree, its names those of Hugging Face: what all families share. For sources of this
// folder.
#pragma once
#include "hyperion/models/model.h"
#include "hyperion/nn/module.h"

namespace hyperion::models {

class Tree : public nn::Module, public Model {
 public:
  at::Tensor logits(const at::Tensor& input, nn::Pass& pass) override { return forward(input, pass); }
  std::vector<Parameter> parameters() final { return list_parameters(); }
  std::vector<Buffer> buffers() final;
  std::vector<at::Tensor> held() final;
  void initialise(uint64_t seed) final { nn::Module::initialise(seed); }
  Values initial_values(uint64_t seed) final {
    return [this, seed](const std::string& name, int64_t begin, const at::Tensor& out) {
      nn::Module::initial_values(seed, name, begin, out);
    };
  }
  // torch::nn::Module has others of the name, which would move wide parameters and 4-bit weights wrongly: hidden.
  // NOLINTNEXTLINE(clang-diagnostic-overloaded-virtual)
  void to(at::Device device, at::ScalarType type) final { move_to(device, type); }
  nn::Adapters& adapters() final { return adapters_; }
  void quantize() final;
  nn::Module* tree() final { return this; }

 private:
  nn::Adapters adapters_{*this};
};

}  // namespace hyperion::models
