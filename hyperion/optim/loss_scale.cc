#include "hyperion/optim/loss_scale.h"

#include <algorithm>

namespace hyperion::optim {

void LossScale::told(bool overflowed) {
  constexpr double kMost = 0x1p40;
  if (overflowed) {
    scale_ /= 2;
    good_steps_ = 0;
  } else if (++good_steps_ == kGrowAfter) {
    scale_ = std::min(2 * scale_, kMost);
    good_steps_ = 0;
  }
}

}  // namespace hyperion::optim
