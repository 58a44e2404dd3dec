// The device under test: the few things that CPU and GPU do differently. Not safe from several threads.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/host/peaks.h"
#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct LatencyCase {
  std::string name;
  profile::Block block;
};

class TimedDevice {
 public:
  virtual ~TimedDevice() = default;
  virtual c10::Device place() const = 0;
  virtual std::string name() const = 0;                 // as the driver or the system reports it
  virtual std::vector<std::string> dtypes() const = 0;  // that products run in here
  virtual host::Peaks peaks() const = 0;
  virtual std::string peak_source() const = 0;
  virtual uint64_t free_bytes() const = 0;  // that a new tensor could take
  virtual bool has_transfers() const = 0;   // whether its memory is not the host's
  virtual profile::Block timed(
      std::function<void()> work) const = 0;  // on the device's clock; the work may be asynchronous
  // Like timed, without what launching costs the host: on a GPU many calls are captured once and replayed as a graph.
  // Where the work cannot be captured, `why_not` says so, and it is timed with its launches. On a GPU needs own_stream.
  virtual profile::Block replayed(std::function<void()> work, std::string& why_not) const {
    why_not.clear();
    return timed(std::move(work));
  }
  // A stream of its own for the work of this scope, as captures need one; null where there are no streams.
  virtual std::shared_ptr<void> own_stream() const { return nullptr; }
  virtual std::vector<LatencyCase> latencies() const = 0;
};

// Measures the CPU's peak, for about `peak_seconds`.
std::unique_ptr<TimedDevice> cpu_device(double peak_seconds);

// The current CUDA device; null where there is none, with the reason in `why`.
std::unique_ptr<TimedDevice> gpu_device(std::string& why);

}  // namespace hyperion::bench
