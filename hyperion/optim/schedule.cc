#include "hyperion/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hyperion::optim {

double Schedule::at(int64_t step) const {
  step = std::min(step, steps);
  if (warmup > 0 && step <= warmup) return peak * static_cast<double>(step) / static_cast<double>(warmup);
  if (shape == "constant") return peak;
  const double span = static_cast<double>(std::max<int64_t>(1, steps - warmup));
  const double done = std::min(1.0, static_cast<double>(step - warmup) / span);
  const double left = shape == "linear" ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return peak * (final_ratio + (1 - final_ratio) * left);
}

}  // namespace hyperion::optim
