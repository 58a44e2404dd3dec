// What a step leaves behind: the tensors and numbers of a checkpoint.
#include <ATen/core/grad_mode.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/parallel/equal_ranks.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {

void StepResult::decide() {
  if (!undecided.defined()) return;
  const auto state = kernels::Updates::read(undecided);
  skipped = state.skipped != 0, loss_scale = state.scale;
  undecided.reset();
}

void Stepper::scale_on_host() {
  if (!optimizer_->scale_state().defined()) return;
  const auto state = kernels::Updates::read(optimizer_->scale_state());
  loss_scale_->restore(state.scale, state.good);
  updates_ = state.updates;
  optimizer_->scale_on_host();
}

StepperNumbers Stepper::numbers() const {
  if (optimizer_->scale_state().defined()) {
    const auto state = kernels::Updates::read(optimizer_->scale_state());
    return {state.updates, state.scale, state.good};
  }
  return {updates_, loss_scale_ ? loss_scale_->scale() : 0, loss_scale_ ? loss_scale_->good_steps() : 0};
}

void Stepper::restore(const StepperNumbers& numbers) {
  updates_ = numbers.updates;
  if (loss_scale_) loss_scale_->restore(numbers.loss_scale, numbers.good_steps);
  if (optimizer_->scale_state().defined())
    optimizer_->scale_on_device({static_cast<float>(numbers.loss_scale), static_cast<int32_t>(numbers.good_steps),
                                 static_cast<int32_t>(numbers.updates), 0});
}

// What is frozen is in the model this one started from.
std::vector<optim::StateTensor> Stepper::state() const {
  std::vector<optim::StateTensor> list;
  for (const auto& part : weights_->parts()) list.push_back({"model." + part.name, part.weight, part.placement});
  for (const auto& buffer : model_.buffers()) list.push_back({"model." + buffer.name, buffer.tensor});
  if (fp8_) list.push_back({"fp8.history", fp8_->scales().history()});
  for (const auto& item : optimizer_->state()) list.push_back({"optimizer." + item.name, item.tensor, item.placement});
  return list;
}

void Stepper::load(const checkpoint::LoadedCheckpoint& loaded) {
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor, placement] : state()) {
    const at::IntArrayRef shape = placement.cut() ? at::IntArrayRef(placement.whole) : tensor.sizes();
    if (at::IntArrayRef(loaded.shape(name)) != shape || loaded.type(name) != tensor.scalar_type())
      throw base::ConfigError(
          base::format("{} of {} has another shape or type than this run's", name, loaded.path.string()),
          "the model and precision of a run cannot change on resume");
    if (placement.cut())
      loaded.copy_stretch(name, placement.begin, tensor);
    else
      tensor.copy_(loaded.tensor(name));
  }
  weights_->updated();
  if (fp8_) fp8_->scales().history_changed();
}

std::vector<at::Tensor> Stepper::trained() const {
  std::vector<at::Tensor> list;
  for (const auto& part : weights_->parts()) list.push_back(part.weight);
  return list;
}

void Stepper::check_processes() {
  if (processes_.size() == 1) return;
  weights_->begin_pass();  // gathered weights have arrived
  parallel::NamedTensors same;
  if (weights_->around() == nullptr)  // else each has a piece of its own
    for (const auto& parameter : model_.parameters()) same.emplace_back(parameter.name, parameter.tensor);
  for (const auto& buffer : model_.buffers()) same.emplace_back(buffer.name, buffer.tensor);
  parallel::check_equal(processes_.control(), same);
  weights_->end_pass();
}

}  // namespace hyperion::train
