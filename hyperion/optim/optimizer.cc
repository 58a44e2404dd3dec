#include "hyperion/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/kernels/adamw.h"

namespace hyperion::optim {

Optimizer::Optimizer(std::vector<Parameter> parameters, std::vector<at::Tensor> masters, const OptimConfig& config)
    : parameters_(std::move(parameters)), masters_(std::move(masters)), config_(config) {
  HYPERION_CHECK(parameters_.size() == masters_.size(), "one master a parameter");
  at::NoGradGuard no_grad;
  for (const auto& master : masters_) {
    HYPERION_CHECK(master.scalar_type() == at::kFloat, "masters are fp32");
    first_.push_back(at::zeros_like(master));
    if (config_.rule == "adamw") second_.push_back(at::zeros_like(master));
  }
}

void Optimizer::update(const std::vector<at::Tensor>& gradients, const at::Tensor& scale, double lr, int64_t step) {
  HYPERION_CHECK(gradients.size() == parameters_.size(), "one gradient a parameter");
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (config_.rule == "adamw") {
      adamw(i, gradients[i], scale, lr, step);
    } else {
      sgd(i, gradients[i], scale, lr);
    }
  }
}

void Optimizer::adamw(size_t index, const at::Tensor& gradient, const at::Tensor& scale, double lr, int64_t step) {
  // Of the rounded beta that the moments decay by: for 0.999999 the two differ by 1% of 1 - beta.
  const auto correction = [&](double beta) {
    return static_cast<float>(1 - std::pow(static_cast<double>(static_cast<float>(beta)), static_cast<double>(step)));
  };
  const kernels::AdamWStep numbers{static_cast<float>(lr),
                                   static_cast<float>(config_.beta1),
                                   static_cast<float>(config_.beta2),
                                   static_cast<float>(config_.epsilon),
                                   static_cast<float>(parameters_[index].decay ? config_.weight_decay : 0.0),
                                   correction(config_.beta1),
                                   correction(config_.beta2)};
  kernels::adamw(masters_[index], first_[index], second_[index], parameters_[index].weight, gradient.contiguous(),
                 scale, numbers);
}

void Optimizer::sgd(size_t index, const at::Tensor& gradient, const at::Tensor& scale, double lr) {
  at::Tensor master = masters_[index];
  first_[index].mul_(config_.momentum).add_(gradient.to(at::kFloat).mul(scale));
  if (parameters_[index].decay) master.mul_(1 - lr * config_.weight_decay);
  master.add_(first_[index], -lr);
  if (!parameters_[index].weight.is_same(master)) parameters_[index].weight.copy_(master);
}

std::vector<StateTensor> Optimizer::state() const {
  std::vector<StateTensor> list;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const auto& [name, weight, decay] = parameters_[i];
    if (!weight.is_same(masters_[i])) list.push_back({"master." + name, masters_[i]});
    list.push_back({"first." + name, first_[i]});
    if (!second_.empty()) list.push_back({"second." + name, second_[i]});
  }
  return list;
}

}  // namespace hyperion::optim
