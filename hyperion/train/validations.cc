#include "hyperion/train/validations.h"

#include "hyperion/base/format.h"

namespace hyperion::train {

void Validations::add(const Found& now, double min_delta, bool kept) {
  if (last == now.step) return;  // the last step's, once more after a kill
  if (kept && (!best || now.loss < best->loss)) best = now;
  const bool lower = !mark || now.loss < mark->loss - min_delta;
  if (lower) mark = now;
  waited = lower ? 0 : waited + 1;
  last = now.step;
}

std::string Validations::waited_text(double min_delta) const {
  const Found from = mark.value_or(Found{});
  return base::format("{} in a row {} not below {:.4f} of step {}{}",
                      waited == 1 ? "1 validation" : base::format("{} validations", waited),
                      waited == 1 ? "was" : "were", from.loss, from.step,
                      min_delta > 0 ? base::format(" by more than {:g}", min_delta) : "");
}

}  // namespace hyperion::train
