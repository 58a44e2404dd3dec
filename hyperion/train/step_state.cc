// What a step leaves behind: the tensors and numbers of a checkpoint.
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/parallel/equal_ranks.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/parallel/trained_weights.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {

void StepResult::decide() {
  if (!undecided.defined()) return;
  const auto state = optim::Updates::read(undecided);
  skipped = state.skipped != 0, loss_scale = state.scale;
  undecided.reset();
}

void Stepper::scale_on_host() {
  if (!optimizer_->scale_state().defined()) return;
  const auto state = optim::Updates::read(optimizer_->scale_state());
  loss_scale_->restore(state.scale, state.good);
  updates_ = state.updates;
  optimizer_->scale_on_host();
}

StepperNumbers Stepper::numbers() const {
  if (optimizer_->scale_state().defined()) {
    const auto state = optim::Updates::read(optimizer_->scale_state());
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
std::vector<nn::Parameter> Stepper::state() const {
  std::vector<nn::Parameter> list;
  const auto add = [&](const char* kind, nn::Parameter item) {
    item.name = kind + item.name;
    list.push_back(std::move(item));
  };
  for (const auto& part : optimizer_->parameters()) add("model.", part);
  for (const auto& buffer : model_.buffers()) add("model.", {buffer.name, buffer.tensor});
  if (fp8_) {
    nn::Parameter history{"history", fp8_->scales().history()};
    history.placement.again = processes_.mesh().index(strategy::Axis::pp | strategy::Axis::tp) != 0;
    add("fp8.", std::move(history));
  }
  for (const auto& item : optimizer_->state()) add("optimizer.", item);
  return list;
}

bool Stepper::saves(const nn::Parameter& item) const {
  const bool slice = item.placement.begin >= 0;
  if (item.placement.again) return false;
  return slice                   ? processes_.first_copy()
         : item.placement.expert ? processes_.in_first_model()
                                 : processes_.first_of_batch();
}

checkpoint::LoadTraffic Stepper::load(const checkpoint::OpenedCheckpoint& from) {
  const auto traffic = checkpoint::load_tensors(from, state(), processes_.control());
  base::log_debug(base::format("of the checkpoint {} were read here, {} sent to other ranks and {} received",
                               base::bytes_text(static_cast<uint64_t>(traffic.read)),
                               base::bytes_text(static_cast<uint64_t>(traffic.sent)),
                               base::bytes_text(static_cast<uint64_t>(traffic.received))));
  weights_->updated();
  if (fp8_) fp8_->scales().history_changed();
  return traffic;
}

std::vector<at::Tensor> Stepper::trained() const {
  std::vector<at::Tensor> list;
  for (const auto& part : optimizer_->parameters()) list.push_back(part.tensor);
  return list;
}

void Stepper::check_processes() {
  if (processes_.size() == 1) return;
  weights_->begin_pass();  // gathered weights have arrived
  std::vector<nn::Parameter> same, experts;
  if (weights_->block_hook() == nullptr)  // else each has a piece of its own
    for (auto& item : model_.parameters())
      if (stages_.owns(item.name)) (stages_.spreads(item.name) ? experts : same).push_back(std::move(item));
  for (const auto& buffer : model_.buffers()) same.push_back({buffer.name, buffer.tensor});
  parallel::check_equal(processes_.copies(), same);
  if (processes_.experts() != nullptr) parallel::check_equal(processes_.expert_copies(), experts);
  weights_->end_pass();
}

}  // namespace hyperion::train
