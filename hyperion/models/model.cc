#include "hyperion/models/model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/constant_pad_nd.h>

#include "hyperion/nn/cross_entropy.h"

namespace hyperion::models {

namespace {

void count_right(const at::Tensor& logits, const at::Tensor& targets, at::Tensor& right) {
  const at::NoGradGuard no_grad;
  const auto here = at::argmax(logits, -1).eq(targets).sum();
  right = right.defined() ? right.add(here) : here;
}

}  // namespace

at::Tensor Model::loss(const at::Tensor& input, const at::Tensor& targets, nn::Pass& pass) {
  return loss_of_logits(logits(input, pass), targets, pass);
}

at::Tensor loss_of_logits(const at::Tensor& logits, const at::Tensor& targets, nn::Pass& pass) {
  if (pass.right != nullptr && !targets.is_floating_point()) count_right(logits, targets, *pass.right);
  // Mixed images have a part of each class of the data, of which the model may have more.
  const bool parts = targets.is_floating_point() && targets.size(-1) < logits.size(-1);
  return nn::cross_entropy(logits,
                           parts ? at::constant_pad_nd(targets, {0, logits.size(-1) - targets.size(-1)}) : targets);
}

strategy::ModelShape adapted_shape(Model& model, const std::string& adapter, int64_t length) {
  int64_t parameters = 0;
  double products = 0;
  for (const auto& [name, tensor] : model.adapters().parameters(adapter)) {
    parameters += tensor.numel();
    if (name.find(".lora_") == name.npos) continue;  // its products are counted as the model's
    products += model.uses(name.substr(0, name.rfind(".lora_"))) * static_cast<double>(tensor.numel());
  }
  return strategy::with_adapter(model.shape(length), parameters, products);
}

}  // namespace hyperion::models
