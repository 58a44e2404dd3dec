#include "hyperion/parallel/expert_weights.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

namespace hyperion::parallel {

ExpertWeights::ExpertWeights(std::unique_ptr<TrainedWeights> shared, std::unique_ptr<TrainedWeights> experts,
                             comm::Group& peers)
    : shared_(std::move(shared)), experts_(std::move(experts)), peers_(peers) {
  if (auto* outer = shared_->block_hook(); outer != nullptr) hook_.emplace(*outer, *experts_->block_hook());
}

std::vector<nn::Parameter> ExpertWeights::take_parts() {
  auto parts = shared_->take_parts();
  shared_parts_ = parts.size();
  for (auto& part : experts_->take_parts()) parts.push_back(std::move(part));
  return parts;
}

at::Tensor ExpertWeights::BothHooks::run(nn::Module& block, const at::Tensor& input, const Forward& forward) {
  return outer_.run(block, input, [&](const at::Tensor& given) { return inner_.run(block, given, forward); });
}

void ExpertWeights::begin_backward(int64_t index, int64_t count, int64_t part) {
  shared_->begin_backward(index, count, part);
  experts_->begin_backward(index, count, part);
}

std::vector<at::Tensor> ExpertWeights::gradients() {
  auto list = shared_->gradients();
  for (auto& gradient : experts_->gradients()) list.push_back(std::move(gradient));
  return list;
}

optim::ClipResult ExpertWeights::clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients,
                                      double limit, double loss_scale, at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  const auto middle = gradients.begin() + static_cast<int64_t>(shared_parts_);
  auto nothing = loss.to(at::kFloat).mul(0);  // the loss is told with what all share
  const auto shared = shared_->clip(optimizer, {gradients.begin(), middle}, 0, loss_scale, loss);
  const auto own = experts_->clip(optimizer, {middle, gradients.end()}, 0, loss_scale, nothing);
  const auto square = own.norm.to(loss.device()).square().reshape({1}).contiguous();
  peers_.all_reduce(square, "norm").wait();
  return optim::clip_to(shared.norm.to(loss.device()).square().add(square[0]).sqrt(), limit, loss_scale);
}

TrainedWeights::Bytes ExpertWeights::bytes(int64_t micro_batches) const {
  const auto shared = shared_->bytes(micro_batches), experts = experts_->bytes(micro_batches);
  return {shared.weights + experts.weights, shared.gradients + experts.gradients,
          shared.taken_over + experts.taken_over};
}

}  // namespace hyperion::parallel
