// Dynamic loss scaling for fp16: the loss is multiplied before the backward pass so that small gradients survive, and
// the scale follows what overflows (Micikevicius et al., 2018). In a graph the device follows the same rule by itself:
// kernels::tell.
#pragma once
#include <cstdint>

namespace hyperion::optim {

class LossScale {
 public:
  explicit LossScale(double initial) : scale_(initial) {}

  double scale() const { return scale_; }
  int64_t good_steps() const { return good_steps_; }
  // Tells how the step went; a step that overflowed must not update anything. Half as much after an overflow, twice as
  // much after kGrowAfter good steps in a row.
  void told(bool overflowed);
  void restore(double scale, int64_t good_steps) { scale_ = scale, good_steps_ = good_steps; }

  static constexpr int64_t kGrowAfter = 2000;

 private:
  double scale_;
  int64_t good_steps_ = 0;
};

}  // namespace hyperion::optim
