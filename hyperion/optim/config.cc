#include "hyperion/optim/config.h"

#include "hyperion/base/config.h"

namespace hyperion::optim {

void describe(base::Settings& settings, OptimConfig& config) {
  settings.section("optim", "the update rule and its schedule")
      .choice("rule", config.rule, "how gradients change weights")
      .real("lr", config.lr, {0, 100}, "peak learning rate")
      .choice("schedule", config.schedule,
              "shape of the learning rate after warm-up; wsd: at the peak, then linearly down")
      .integer("warmup", config.warmup, {0, 1'000'000'000}, "linear rise to the peak", "steps")
      .integer("decay_steps", config.decay_steps, {0, 1'000'000'000},
               "step at which the last learning rate is reached, and kept from there on; 0: train.steps, as the run is "
               "begun",
               "steps")
      .real("decay", config.decay, {0, 1}, "wsd: the last part of the schedule, in which the learning rate falls")
      .real("final_lr_ratio", config.final_lr_ratio, {0, 1}, "last learning rate, as a part of the peak")
      .real("weight_decay", config.weight_decay, {0, 10}, "decoupled decay of matrices (not norms, biases, embeddings)")
      .real("beta1", config.beta1, {0, 0.999999}, "AdamW: decay of the first moment")
      .real("beta2", config.beta2, {0, 0.999999}, "AdamW: decay of the second moment")
      .real("epsilon", config.epsilon, {1e-16, 1}, "AdamW: added to the root of the second moment")
      .real("momentum", config.momentum, {0, 0.999999}, "SGD: momentum")
      .real("clip", config.clip, {0, 1e9}, "largest global gradient norm; 0 switches clipping off");
}

Schedule schedule_of(const OptimConfig& config, int64_t steps) {
  return {config.schedule,
          config.lr,
          config.final_lr_ratio,
          config.warmup,
          config.decay_steps > 0 ? config.decay_steps : steps,
          config.decay};
}

}  // namespace hyperion::optim
