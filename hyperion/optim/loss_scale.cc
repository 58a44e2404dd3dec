#include "hyperion/optim/loss_scale.h"

#include <algorithm>

#include "hyperion/optim/update_math.h"

namespace hyperion::optim {

void LossScale::told(bool overflowed) {
  if (overflowed) {
    scale_ /= 2;
    good_steps_ = 0;
  } else if (++good_steps_ == kGrowAfter) {
    scale_ = std::min(2 * scale_, static_cast<double>(kMostLossScale));
    good_steps_ = 0;
  }
}

}  // namespace hyperion::optim
