#include "hyperion/models/model.h"

#include "hyperion/nn/fused.h"

namespace hyperion::models {

at::Tensor Model::loss(const at::Tensor& input, const at::Tensor& targets, nn::Pass& pass) {
  return nn::cross_entropy(logits(input, pass), targets);
}

}  // namespace hyperion::models
