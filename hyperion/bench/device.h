// The device under test: the few things that CPU and GPU do differently. Not safe from several threads.
#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hyperion/bench/timing.h"
#include "hyperion/host/peaks.h"

namespace hyperion::bench {

struct LatencyCase {
  std::string name;
  Block block;
};

class TimedDevice {
 public:
  virtual ~TimedDevice() = default;
  virtual c10::Device place() const = 0;
  virtual std::string name() const = 0;                 // as the driver or the system reports it
  virtual std::vector<std::string> dtypes() const = 0;  // that products run in here
  virtual host::Peaks peaks() const = 0;
  virtual std::string peak_source() const = 0;
  virtual uint64_t free_bytes() const = 0;                    // that a new tensor could take
  virtual bool has_transfers() const = 0;                     // whether its memory is not the host's
  virtual Block timed(std::function<void()> work) const = 0;  // on the device's clock; the work may be asynchronous
  virtual std::vector<LatencyCase> latencies() const = 0;
};

// Measures the CPU's peak, for about `peak_seconds`.
std::unique_ptr<TimedDevice> cpu_device(double peak_seconds);

// The current CUDA device; null where there is none, with the reason in `why`.
std::unique_ptr<TimedDevice> gpu_device(std::string& why);

}  // namespace hyperion::bench
