#include "hyperion/parallel/whole_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

namespace hyperion::parallel {

WholeWeights::WholeWeights(std::vector<nn::Parameter> weights) {
  for (auto& weight : weights) {
    if (!weight.tensor.requires_grad()) continue;
    weight.master = master_of(weight.tensor, weight.master);
    weights_.push_back(weight.tensor);
    parts_.push_back(std::move(weight));
  }
}

// Parts of a batch add up in fp32 whatever the gradients' type.
void WholeWeights::end_backward() {
  const at::NoGradGuard no_grad;
  sums_.resize(weights_.size());
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor& weight = weights_[i];
    at::Tensor& gradient = weight.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(weight);  // not used by this part: an idle expert
    if (count_ == 1) {
      sums_[i] = gradient;
    } else if (index_ == 0) {
      sums_[i] = gradient.to(at::kFloat);
    } else {
      sums_[i].add_(gradient);
    }
    gradient.reset();
  }
}

void WholeWeights::drop_gradients() {
  for (const auto& weight : weights_) weight.mutable_grad().reset();
  sums_.clear();
}

optim::ClipResult WholeWeights::clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients,
                                     double limit, double loss_scale, at::Tensor& /*loss*/) {
  return optimizer.clip(gradients, limit, loss_scale);
}

TrainedWeights::Bytes WholeWeights::bytes(int64_t micro_batches) const {
  Bytes bytes;
  for (const auto& weight : weights_) {
    bytes.gradients += static_cast<int64_t>(weight.nbytes());
    if (micro_batches > 1) bytes.gradients += 4 * weight.numel();
  }
  return bytes;  // none of the weights was taken over
}

}  // namespace hyperion::parallel
