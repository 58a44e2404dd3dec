#include "hyperion/optim/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/optim/loss_scale.h"

namespace hyperion::optim {
namespace {

// An update walks over memory: the gradient must lie as the state does, whatever order its sides lie in.
at::Tensor as_laid_out(const at::Tensor& gradient, const at::Tensor& like) {
  HYPERION_CHECK(gradient.sizes() == like.sizes(), "a gradient has its parameter's shape");
  if (laid_out_alike(gradient, like)) return gradient;
  return at::empty_like(like, gradient.options()).copy_(gradient);
}

}  // namespace

Optimizer::Optimizer(std::vector<nn::Parameter> parameters, const OptimConfig& config)
    : parameters_(std::move(parameters)), config_(config) {
  at::NoGradGuard no_grad;
  for (const auto& parameter : parameters_) {
    const at::Tensor& master = parameter.master;
    HYPERION_CHECK(master.defined() && master.scalar_type() == at::kFloat, "each parameter has a master in fp32");
    first_.push_back(at::zeros_like(master));
    if (config_.rule == UpdateRule::adamw) second_.push_back(at::zeros_like(master));
  }
}

void Optimizer::update(const std::vector<at::Tensor>& gradients, const at::Tensor& scale, double lr, int64_t step) {
  kernels::SmallWrites writes;
  set_numbers(lr, step, writes);
  writes.queue();
  update(gradients, scale);
}

void Optimizer::set_numbers(double lr, int64_t step, kernels::SmallWrites& writes) {
  if (parameters_.empty()) return;
  const auto device = parameters_.front().tensor.device();
  if (config_.rule != UpdateRule::adamw)
    return updates_.set_sgd(device, static_cast<float>(lr), static_cast<float>(config_.momentum), writes);
  // Of the rounded beta that the moments decay by: for 0.999999 the two differ by 1% of 1 - beta.
  const auto correction = [&](double beta) {
    return static_cast<float>(1 - std::pow(static_cast<double>(static_cast<float>(beta)), static_cast<double>(step)));
  };
  updates_.set(device,
               {static_cast<float>(lr), static_cast<float>(config_.beta1), static_cast<float>(config_.beta2),
                static_cast<float>(config_.epsilon), 0, correction(config_.beta1), correction(config_.beta2)},
               writes);
}

void Optimizer::update(const std::vector<at::Tensor>& gradients, const at::Tensor& scale) {
  HYPERION_CHECK(gradients.size() == parameters_.size(), "one gradient a parameter");
  at::NoGradGuard no_grad;
  const auto second = [&](size_t i) { return second_.empty() ? at::Tensor() : second_[i]; };
  if (staging_ == nullptr) {
    std::vector<UpdateTensors> all;
    for (size_t i = 0; i < gradients.size(); ++i)
      all.push_back(tensors_of(i, {parameters_[i].master, first_[i], second(i)}, gradients[i]));
    return apply(all, scale);
  }
  std::vector<Group> groups(gradients.size());
  for (size_t i = 0; i < gradients.size(); ++i) {
    groups[i].push_back(first_[i]);
    if (!second_.empty()) groups[i].push_back(second_[i]);
    if (owns_master(i)) groups[i].push_back(parameters_[i].master);
  }
  staging_->visit(groups, [&](size_t i, const Group& visiting) {
    const at::Tensor master = owns_master(i) ? visiting.back() : parameters_[i].master;
    apply({tensors_of(i, {master, visiting[0], second_.empty() ? at::Tensor() : visiting[1]}, gradients[i])}, scale);
  });
}

ClipResult Optimizer::clip(const std::vector<at::Tensor>& gradients, double limit, double loss_scale) {
  if (gradients.empty() || !gradients[0].is_cuda()) return clip_factor(gradients, limit, loss_scale);
  std::vector<at::Tensor> whole;
  for (const auto& gradient : gradients)
    whole.push_back(gradient.is_non_overlapping_and_dense() ? gradient : gradient.contiguous());
  const auto found = updates_.clip(whole, limit, loss_scale);
  return {found.norm, found.scale};
}

void Optimizer::scale_on_device(const LossScaleState& state) {
  if (!parameters_.empty())
    updates_.scale_on_device(parameters_.front().tensor.device(), state, static_cast<int32_t>(LossScale::kGrowAfter));
}

void Optimizer::to_host() {
  if (staging_ != nullptr || parameters_.empty()) return;
  staging_ = std::make_unique<Staging>(parameters_.front().tensor.device());
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    first_[i] = staging_->to_host(first_[i]);
    if (!second_.empty()) second_[i] = staging_->to_host(second_[i]);
    if (owns_master(i)) parameters_[i].master = staging_->to_host(parameters_[i].master);
  }
}

Optimizer::Bytes Optimizer::bytes() const {
  int64_t all = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    all += static_cast<int64_t>(first_[i].nbytes());
    if (!second_.empty()) all += static_cast<int64_t>(second_[i].nbytes());
    if (owns_master(i)) all += static_cast<int64_t>(parameters_[i].master.nbytes());
  }
  return on_host() ? Bytes{0, all} : Bytes{all, 0};
}

UpdateTensors Optimizer::tensors_of(size_t index, Slot slot, const at::Tensor& gradient) const {
  const auto& parameter = parameters_[index];
  return {slot.master,
          slot.first,
          slot.second,
          owns_master(index) ? parameter.tensor : slot.master,
          as_laid_out(gradient, slot.first),
          static_cast<float>(parameter.traits.decay ? config_.weight_decay : 0.0)};
}

void Optimizer::apply(const std::vector<UpdateTensors>& tensors, const at::Tensor& scale) {
  config_.rule == UpdateRule::adamw ? updates_.adamw(tensors, scale) : updates_.sgd(tensors, scale);
}

std::vector<nn::Parameter> Optimizer::state() const {
  if (staging_ != nullptr) staging_->finish();
  std::vector<nn::Parameter> list;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const nn::Parameter& parameter = parameters_[i];
    const auto add = [&](const char* kind, const at::Tensor& tensor) {
      list.push_back({.name = kind + parameter.name, .tensor = tensor, .placement = parameter.placement});
    };
    if (owns_master(i)) add("master.", parameter.master);
    add("first.", first_[i]);
    if (!second_.empty()) add("second.", second_[i]);
  }
  return list;
}

}  // namespace hyperion::optim
