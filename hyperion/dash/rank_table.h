// How each process of a run does now, from the last rows of its own file.
#pragma once
#include "hyperion/base/files.h"
#include "hyperion/base/json.h"

namespace hyperion::dash {

constexpr size_t kMostRanks = 256;  // that are shown

// {"left_out": ranks beyond kMostRanks, "ranks": [{"rank", "step", "steps": how many the means are of, "held_up",
// "gpu_slowed", and by key of metrics.rank-N.csv its mean over these steps}]}
base::Json rank_table(const base::Path& run);

}  // namespace hyperion::dash
