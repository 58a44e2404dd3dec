// When this process computed what of a step of its pipeline.
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <optional>
#include <vector>

#include "hyperion/strategy/plan_walk.h"

namespace hyperion::parallel {

// Each process counts from where it calls `begin`, so that all call it where they leave an exchange of all. On a GPU
// times are those of events in the current stream: nothing is waited for between `begin` and `read`.
class PipelineTimes {
 public:
  explicit PipelineTimes(c10::Device device) : device_(device) {}

  void settle() const;  // before that exchange: waits for what a GPU has queued, which other processes do not see
  void begin();         // forgets what was timed before
  void start(size_t instruction);
  void stop();
  // Waits for the last of them to pass on the device.
  std::vector<strategy::TimedWork> read() const;

 private:
  struct Moment {
    double seconds = 0;               // by the host's clock, where that computes
    std::optional<c10::Event> event;  // else
  };
  struct Work {
    size_t instruction;
    Moment begin, end;
  };
  Moment now() const;
  double since_begin(const Moment& moment) const;

  c10::Device device_;
  Moment begin_;
  std::vector<Work> work_;
};

}  // namespace hyperion::parallel
