// Settings of the update.
#pragma once
#include <array>
#include <cstdint>

#include "hyperion/optim/schedule.h"

namespace hyperion::base {
class Settings;
}

namespace hyperion::optim {

enum class UpdateRule { adamw, sgd };
constexpr auto words_of(UpdateRule) { return std::array{"adamw", "sgd"}; }

struct OptimConfig {
  UpdateRule rule = UpdateRule::adamw;
  ScheduleShape schedule = ScheduleShape::cosine;
  double lr = 3e-4, final_lr_ratio = 0.1, weight_decay = 0.1, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, momentum = 0.9;
  double clip = 1.0, decay = 0.2;
  int64_t warmup = 20, decay_steps = 0;
};
void describe(base::Settings& settings, OptimConfig& config);
Schedule schedule_of(const OptimConfig& config, int64_t steps);  // of a run of so many steps

}  // namespace hyperion::optim
