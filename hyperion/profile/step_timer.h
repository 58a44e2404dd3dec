// Where a step's time went. Marks are cheap on either device; a GPU's times are read later, when its work is done.
#pragma once
#include <array>
#include <memory>

namespace hyperion::profile {

enum class Phase { data, forward, backward, optimizer };
using PhaseTimes = std::array<double, 4>;  // milliseconds, by Phase

class StepTimer {
 public:
  virtual ~StepTimer() = default;
  // The time since the last mark (or the making) was spent on this phase; a phase may come many times.
  virtual void mark(Phase phase) = 0;
  // Waits for the last mark to pass on the device.
  virtual PhaseTimes milliseconds() = 0;
};

// Of work that is being recorded, where marks would be a part of it.
class NoStepTimer final : public StepTimer {
  void mark(Phase) override {}
  PhaseTimes milliseconds() override { return {}; }
};

// One a step. On the GPU, marks are events in the current stream.
std::unique_ptr<StepTimer> make_step_timer(bool gpu);

}  // namespace hyperion::profile
