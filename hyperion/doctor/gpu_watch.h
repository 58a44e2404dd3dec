// What the GPU of this process is doing while a job trains: read ten times a second by a thread of its own, and told by
// step.
#pragma once
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "hyperion/host/gpu_vitals.h"

namespace hyperion::doctor {

// Means of what was read since the last time; where nothing was, what was told then.
struct GpuDigest {
  std::optional<double> clock, temperature, busy, power;  // as host::GpuVitals
  std::optional<host::Slowed> slowed;                     // by what most of the time
};

class GpuWatch {
 public:
  // Reads at once, and then in this rhythm.
  explicit GpuWatch(std::unique_ptr<host::GpuReader> reader,
                    std::chrono::milliseconds period = std::chrono::milliseconds(100));
  ~GpuWatch();
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;

  GpuDigest since_last();

 private:
  struct Sums;
  void read();
  void loop(std::chrono::milliseconds period);

  std::unique_ptr<host::GpuReader> reader_;
  std::unique_ptr<Sums> sums_;
  GpuDigest told_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace hyperion::doctor
