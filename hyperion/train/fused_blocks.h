// Whether the blocks of a pass are made of fused operations: on a GPU, unless plain ones are asked for. A CPU gains
// nothing by it; where HYPERION_FUSED_BLOCKS is set it fuses them too, so that tests see a GPU's forms without one.
#pragma once
#include <cstdlib>

#include "hyperion/train/config.h"

namespace hyperion::train {

inline bool fuses_blocks(Optimize optimize, bool gpu) {
  const auto* asked = gpu ? nullptr : std::getenv("HYPERION_FUSED_BLOCKS");
  return optimize != Optimize::reference && (gpu || (asked != nullptr && *asked != '\0'));
}

}  // namespace hyperion::train
