// The learning rate as a function of the step alone, so that a resumed run needs no schedule state.
#pragma once
#include <array>
#include <cstdint>

namespace hyperion::optim {

// After the warm-up. wsd: at the peak, then linearly down.
enum class ScheduleShape { constant, linear, cosine, wsd };
constexpr auto words_of(ScheduleShape) { return std::array{"constant", "linear", "cosine", "wsd"}; }

struct Schedule {
  ScheduleShape shape = ScheduleShape::cosine;
  double peak = 3e-4;
  double final_ratio = 0.1;       // of the peak, reached at the last step
  int64_t warmup = 0, steps = 1;  // warmup steps rise linearly from peak / warmup
  double decay = 0.2;             // wsd: the last part of the steps, in which it falls linearly; before, the peak

  // Of step 1..steps; constant beyond the last.
  double at(int64_t step) const;
};

}  // namespace hyperion::optim
