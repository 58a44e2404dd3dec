#include "hyperion/parallel/staged_weights.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>

#include "hyperion/parallel/processes.h"

namespace hyperion::parallel {

StagedWeights::StagedWeights(std::unique_ptr<TrainedWeights> own, Processes& processes, std::string tied)
    : own_(std::move(own)), stages_(*processes.stages()), ends_(*processes.ends()), tied_(std::move(tied)) {}

std::vector<nn::Parameter> StagedWeights::take_parts() {
  auto parts = own_->take_parts();
  for (size_t i = 0; i < parts.size() && ends_.size() > 1 && !tied_.empty(); ++i)
    if (parts[i].name == tied_) tied_part_ = i;
  return parts;
}

std::vector<at::Tensor> StagedWeights::gradients() {
  auto list = own_->gradients();
  if (!tied_part_) return list;
  auto& both = list[*tied_part_];
  both = both.contiguous();
  ends_.all_reduce(both, "tied weights").wait();
  return list;
}

// What both ends have counts once.
optim::ClipResult StagedWeights::clip(optim::Optimizer& optimizer, const std::vector<at::Tensor>& gradients,
                                      double limit, double loss_scale, at::Tensor& loss) {
  const at::NoGradGuard no_grad;
  auto counted = gradients;
  if (tied_part_ && ends_.rank() > 0) counted.erase(counted.begin() + static_cast<std::ptrdiff_t>(*tied_part_));
  const auto own = own_->clip(optimizer, counted, 0, loss_scale, loss);
  const auto both = at::stack({loss.to(at::kFloat).reshape({}), own.norm.to(loss.device()).square()});
  stages_.all_reduce(both, "loss and norm").wait();
  loss = both[0];
  return optim::clip_to(both[1].sqrt(), limit, loss_scale);
}

}  // namespace hyperion::parallel
