#include "hyperion/train/stepper.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>

#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/optim/clip.h"

namespace hyperion::train {

using profile::Phase;

Stepper::Stepper(models::LanguageModel& model, const RunConfig& config, at::Device device)
    : model_(model), config_(config), device_(device) {
  at::NoGradGuard no_grad;
  const bool narrow = config.train.precision == "bf16";
  if (narrow)
    for (const auto& parameter : model.parameters())
      masters_.push_back(parameter.tensor.detach().to(device, at::kFloat, false, true));
  model.to(device, narrow ? at::kBFloat16 : at::kFloat);
  std::vector<optim::Parameter> parameters;
  for (const auto& parameter : model.parameters()) {
    parameters.push_back({parameter.name, parameter.tensor, parameter.decay});
    weights_.push_back(parameter.tensor);
  }
  optimizer_ = std::make_unique<optim::Optimizer>(std::move(parameters), narrow ? masters_ : weights_, config.optim);
  gradients_.resize(weights_.size());
}

at::Tensor Stepper::micro_batch(const at::Tensor& rows, int64_t step, int64_t index, profile::StepTimer& timer) {
  nn::Pass pass;
  pass.training = true;
  pass.reference = config_.train.optimize == "reference";
  pass.seed = config_.train.seed;
  pass.step = static_cast<uint32_t>(step);
  pass.micro_batch = static_cast<uint32_t>(index);
  const int64_t length = config_.train.length;
  const auto logits = model_.logits(rows.narrow(1, 0, length), pass);
  const auto loss =
      kernels::cross_entropy(logits, rows.narrow(1, 1, length)).div(static_cast<double>(config_.train.accumulate));
  timer.mark(Phase::forward);
  loss.backward();
  timer.mark(Phase::backward);
  return loss.detach();
}

// Parts of a batch add up in fp32 whatever the gradients' type.
void Stepper::take_gradients(int64_t index) {
  at::NoGradGuard no_grad;
  for (size_t i = 0; i < weights_.size(); ++i) {
    at::Tensor& gradient = weights_[i].mutable_grad();
    if (config_.train.accumulate == 1) {
      gradients_[i] = gradient;
    } else if (index == 0) {
      gradients_[i] = gradient.to(at::kFloat);
    } else {
      gradients_[i].add_(gradient);
    }
    gradient.reset();
  }
}

StepResult Stepper::run(const std::vector<int64_t>& tokens, int64_t step, double lr, profile::StepTimer& timer) {
  const LoopConfig& train = config_.train;
  const auto all =
      at::from_blob(const_cast<int64_t*>(tokens.data()), {train.batch, train.length + 1}, at::kLong).to(device_);
  timer.mark(Phase::data);
  const int64_t rows = train.batch / train.accumulate;
  at::Tensor loss;
  for (int64_t index = 0; index < train.accumulate; ++index) {
    const auto part = micro_batch(all.narrow(0, index * rows, rows), step, index, timer);
    loss = index == 0 ? part : loss.add(part);
    take_gradients(index);
  }
  at::NoGradGuard no_grad;
  const auto clip = optim::clip_factor(gradients_, config_.optim.clip);
  optimizer_->update(gradients_, clip.scale, lr, step);
  for (auto& gradient : gradients_) gradient.reset();
  timer.mark(Phase::optimizer);
  return {loss, clip.norm};
}

std::vector<optim::StateTensor> Stepper::state() const {
  std::vector<optim::StateTensor> list;
  for (const auto& parameter : model_.parameters()) list.push_back({"model." + parameter.name, parameter.tensor});
  for (const auto& item : optimizer_->state()) list.push_back({"optimizer." + item.name, item.tensor});
  return list;
}

}  // namespace hyperion::train
