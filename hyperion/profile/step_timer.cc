#include "hyperion/profile/step_timer.h"

#include "hyperion/base/clock.h"
#include "hyperion/profile/gpu.h"

namespace hyperion::profile {
namespace {

class CpuStepTimer final : public StepTimer {
 public:
  void mark(Phase phase) override {
    const double now = base::real_clock().seconds();
    times_[static_cast<size_t>(phase)] += 1e3 * (now - last_);
    last_ = now;
  }
  PhaseTimes milliseconds() override { return times_; }

 private:
  double last_ = base::real_clock().seconds();
  PhaseTimes times_{};
};

}  // namespace

std::unique_ptr<StepTimer> make_step_timer(bool gpu) {
  return gpu ? make_gpu_step_timer() : std::make_unique<CpuStepTimer>();
}

}  // namespace hyperion::profile
