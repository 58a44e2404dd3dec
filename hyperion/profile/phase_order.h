// Where a replayed graph's time went, told from the order of its kernels: there are no marks inside it.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hyperion/profile/gaps.h"
#include "hyperion/profile/step_timer.h"

namespace hyperion::profile {

// Words of kernel names, in small letters.
struct PhaseWords {
  std::vector<std::string> loss = {"cross_entropy", "nll_loss", "log_softmax", "logsoftmax"};
  std::vector<std::string> optimizer = {"squares_kernel", "clip_kernel", "update_kernel", "global_norm",
                                        "adam",           "sgd",         "multi_tensor"};
};

// Milliseconds a step (the median) of whole steps one after the other on one stream. The forward ends with the last
// kernel of the loss that is no backward; the optimizer begins with the first kernel that bears its name, so what has a
// name of its own before it (a sum of squares) counts to the backward. Nothing where the kernels' names do not tell
// `steps` steps apart.
std::optional<PhaseTimes> phases_by_order(const std::vector<TracedSpan>& spans, int64_t steps,
                                          const PhaseWords& words = {});

}  // namespace hyperion::profile
