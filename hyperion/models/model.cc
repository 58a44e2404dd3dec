#include "hyperion/models/model.h"

#include "hyperion/nn/fused.h"

namespace hyperion::models {

at::Tensor Model::loss(const at::Tensor& input, const at::Tensor& targets, nn::Pass& pass) {
  return nn::cross_entropy(logits(input, pass), targets);
}

strategy::ModelShape adapted_shape(Model& model, const std::string& adapter, int64_t length) {
  int64_t parameters = 0;
  double products = 0;
  for (const auto& [name, tensor] : model.adapters().parameters(adapter)) {
    parameters += tensor.numel();
    products += model.uses(name.substr(0, name.rfind(".lora_"))) * static_cast<double>(tensor.numel());
  }
  return strategy::with_adapter(model.shape(length), parameters, products);
}

}  // namespace hyperion::models
