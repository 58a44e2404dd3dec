#include "hyperion/parallel/whole_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

namespace hyperion::parallel {

WholeWeights::WholeWeights(const std::vector<Weight>& weights) {
  for (const auto& weight : weights)
    if (weight.tensor.requires_grad()) parts_.push_back({weight.name, weight.tensor, weight.decay});
}

std::vector<at::Tensor> WholeWeights::masters(const std::vector<at::Tensor>& wide) {
  std::vector<at::Tensor> list;
  for (size_t i = 0; i < parts_.size(); ++i) list.push_back(master_of(parts_[i].weight, wide.at(i)));
  return list;
}

// Parts of a batch add up in fp32 whatever the gradients' type.
void WholeWeights::end_backward() {
  const at::NoGradGuard no_grad;
  sums_.resize(parts_.size());
  for (size_t i = 0; i < parts_.size(); ++i) {
    const at::Tensor& weight = parts_[i].weight;
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
  for (const auto& part : parts_) part.weight.mutable_grad().reset();
  sums_.clear();
}

optim::ClipResult WholeWeights::clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients,
                                     double limit, double loss_scale, at::Tensor& /*loss*/) {
  return optimizer.clip(gradients, limit, loss_scale);
}

TrainedWeights::Bytes WholeWeights::bytes(int64_t micro_batches) const {
  Bytes bytes;
  for (const auto& part : parts_) {
    bytes.gradients += static_cast<int64_t>(part.weight.nbytes());
    if (micro_batches > 1) bytes.gradients += 4 * part.weight.numel();
  }
  return bytes;  // none of the weights was taken over
}

}  // namespace hyperion::parallel
