#include "hyperion/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hyperion::optim {

double Schedule::at(int64_t step) const {
  step = std::min(step, steps);
  if (warmup > 0 && step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (shape == ScheduleShape::constant) return peak;
  const double all = static_cast<double>(steps), risen = static_cast<double>(warmup);
  const double begin = shape == ScheduleShape::wsd ? std::max(risen, all - decay * all) : risen;
  const double done = std::clamp((static_cast<double>(step) - begin) / std::max(1.0, all - begin), 0.0, 1.0);
  const double left = shape == ScheduleShape::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return peak * (final_ratio + (1 - final_ratio) * left);
}

}  // namespace hyperion::optim
