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
  const auto second = [&](size_t i) { return second_.empty() ? at::Tensor() : second_[i]; };
  if (staging_ == nullptr) {
    for (size_t i = 0; i < gradients.size(); ++i)
      apply(i, {masters_[i], first_[i], second(i)}, gradients[i], scale, lr, step);
    return;
  }
  std::vector<Group> groups(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    groups[i].push_back(first_[i]);
    if (!second_.empty()) groups[i].push_back(second_[i]);
    if (owns_master(i)) groups[i].push_back(masters_[i]);
  }
  staging_->visit(groups, [&](size_t i, const Group& visiting) {
    const at::Tensor master = owns_master(i) ? visiting.back() : masters_[i];
    apply(i, {master, visiting[0], second_.empty() ? at::Tensor() : visiting[1]}, gradients[i], scale, lr, step);
  });
}

void Optimizer::to_host() {
  if (staging_ != nullptr || parameters_.empty()) return;
  staging_ = std::make_unique<Staging>(parameters_.front().weight.device());
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    first_[i] = staging_->to_host(first_[i]);
    if (!second_.empty()) second_[i] = staging_->to_host(second_[i]);
    if (owns_master(i)) masters_[i] = staging_->to_host(masters_[i]);
  }
}

Optimizer::Bytes Optimizer::bytes() const {
  int64_t all = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    all += static_cast<int64_t>(first_[i].nbytes());
    if (!second_.empty()) all += static_cast<int64_t>(second_[i].nbytes());
    if (owns_master(i)) all += static_cast<int64_t>(masters_[i].nbytes());
  }
  return on_host() ? Bytes{0, all} : Bytes{all, 0};
}

void Optimizer::apply(size_t index, Slot slot, const at::Tensor& gradient, const at::Tensor& scale, double lr,
                      int64_t step) {
  if (config_.rule == "adamw") return adamw(index, std::move(slot), gradient, scale, lr, step);
  sgd(index, std::move(slot), gradient, scale, lr);
}

void Optimizer::adamw(size_t index, Slot slot, const at::Tensor& gradient, const at::Tensor& scale, double lr,
                      int64_t step) {
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
  kernels::adamw(slot.master, slot.first, slot.second, parameters_[index].weight, gradient.contiguous(), scale,
                 numbers);
}

void Optimizer::sgd(size_t index, Slot slot, const at::Tensor& gradient, const at::Tensor& scale, double lr) {
  slot.first.mul_(config_.momentum).add_(gradient.to(at::kFloat).mul(scale));
  if (parameters_[index].decay) slot.master.mul_(1 - lr * config_.weight_decay);
  slot.master.add_(slot.first, -lr);
  if (!parameters_[index].weight.is_same(slot.master)) parameters_[index].weight.copy_(slot.master);
}

std::vector<StateTensor> Optimizer::state() const {
  if (staging_ != nullptr) staging_->finish();
  std::vector<StateTensor> list;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::string& name = parameters_[i].name;
    if (owns_master(i)) list.push_back({"master." + name, masters_[i]});
    list.push_back({"first." + name, first_[i]});
    if (!second_.empty()) list.push_back({"second." + name, second_[i]});
  }
  return list;
}

}  // namespace hyperion::optim
