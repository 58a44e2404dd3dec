#include "hyperion/parallel/whole_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

namespace hyperion::parallel {

WholeWeights::WholeWeights(std::vector<nn::Parameter> weights) {
  for (auto& weight : weights) {
    held_ += static_cast<int64_t>(weight.tensor.nbytes());
    if (!weight.tensor.requires_grad()) continue;
    weight.master = master_of(weight.tensor, weight.master);
    weights_.push_back(weight.tensor);
    parts_.push_back(std::move(weight));
  }
}

// Parts of a batch add up in fp32 whatever the gradients' type.
void WholeWeights::end_backward() {
  const at::NoGradGuard no_grad;
  if (index_ == 0) sums_.clear();
  sums_.resize(weights_.size());
  for (size_t i = 0; i < weights_.size(); ++i) {
    const at::Tensor& weight = weights_[i];
    at::Tensor& gradient = weight.mutable_grad();
    if (!gradient.defined()) {  // not used by this part: an idle expert
      if (index_ + 1 == count_ && !sums_[i].defined())
        sums_[i] = at::zeros_like(weight, count_ == 1 ? weight.scalar_type() : at::kFloat);
      continue;
    }
    if (sums_[i].defined())
      sums_[i].add_(gradient);
    else
      sums_[i] = count_ == 1 ? gradient : gradient.to(at::kFloat);
    gradient.reset();
  }
}

void WholeWeights::drop_gradients() {
  for (const auto& weight : weights_) weight.mutable_grad().reset();
  sums_.clear();
}

optim::ClipResult WholeWeights::clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients,
                                     double limit, double loss_scale, at::Tensor& loss) {
  if (gradients.empty()) return optim::clip_to(loss.detach().to(at::kFloat).mul(0), limit, loss_scale);
  return optimizer.clip(gradients, limit, loss_scale);
}

TrainedWeights::Bytes WholeWeights::bytes(int64_t micro_batches) const {
  Bytes bytes{.weights = held_, .taken_over = held_};
  for (const auto& weight : weights_) {
    bytes.gradients += static_cast<int64_t>(weight.nbytes());
    if (micro_batches > 1) bytes.gradients += 4 * weight.numel();
  }
  return bytes;
}

}  // namespace hyperion::parallel
