// One update: micro-batches forward and backward, global norm and clip, and the update rule. The same step everywhere.
#pragma once
#include <memory>
#include <vector>

#include "hyperion/models/language_model.h"
#include "hyperion/optim/optimizer.h"
#include "hyperion/profile/step_timer.h"
#include "hyperion/train/config.h"

namespace hyperion::train {

// Left on the device: reading them waits for the step.
struct StepResult {
  at::Tensor loss, grad_norm;
};

class Stepper {
 public:
  // Takes a model initialised in fp32 on the CPU, and moves it to the device and precision of the run.
  Stepper(models::LanguageModel& model, const RunConfig& config, at::Device device);

  // `tokens`: batch rows of length + 1. `step` counts from 1.
  StepResult run(const std::vector<int64_t>& tokens, int64_t step, double lr, profile::StepTimer& timer);

  // Every tensor a checkpoint must hold, by its name there; the live ones.
  std::vector<optim::StateTensor> state() const;

 private:
  at::Tensor micro_batch(const at::Tensor& rows, int64_t step, int64_t index, profile::StepTimer& timer);
  void take_gradients(int64_t index);

  models::LanguageModel& model_;
  const RunConfig& config_;
  at::Device device_;
  std::vector<at::Tensor> weights_, masters_, gradients_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace hyperion::train
