#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/bench/cpu_peak.h"
#include "hyperion/bench/device.h"

namespace hyperion::bench {
namespace {

int usable_cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

// The value after "key ... :" in a file of such lines, empty where there is none.
std::string value_of(const char* file, const std::string& key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const size_t colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return {};
}

std::string cpu_name() {
  const std::string model = value_of("/proc/cpuinfo", "model name");
  if (!model.empty()) return model;
  utsname system{};
  uname(&system);
  return base::format("{} CPU", system.machine);
}

uint64_t number_in(const char* file) {
  uint64_t number = 0;
  std::ifstream(file) >> number;  // stays 0 for "max" and for a missing file
  return number;
}

uint64_t free_host_bytes() {
  uint64_t kibibytes = 0;
  std::istringstream(value_of("/proc/meminfo", "MemAvailable")) >> kibibytes;
  const uint64_t limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  const uint64_t left = limit > used ? limit - used : 0;
  return limit == 0 ? kibibytes * 1024 : std::min(kibibytes * 1024, left);
}

class Cpu final : public TimedDevice {
 public:
  explicit Cpu(double peak_seconds) : peak_(measure_cpu_peak(usable_cores(), peak_seconds)) {}

  c10::Device place() const override { return c10::Device(c10::kCPU); }
  std::string name() const override { return base::format("{}, {} cores", cpu_name(), usable_cores()); }
  std::vector<std::string> dtypes() const override { return {"fp32", "fp16", "bf16"}; }
  Peaks peaks() const override {
    Peaks peaks;
    peaks.fp32 = peak_.tflops;
    return peaks;
  }
  std::string peak_source() const override {
    return base::format("measured: {:.4f} TFLOP/s fp32 ({} multiply-adds on {} threads)", peak_.tflops, peak_.vectors,
                        peak_.threads);
  }
  uint64_t free_bytes() const override { return free_host_bytes(); }
  bool has_transfers() const override { return false; }

  Block timed(std::function<void()> work) const override {
    return [work = std::move(work)](int64_t calls) {
      const double begin = base::real_clock().seconds();
      for (int64_t call = 0; call < calls; ++call) work();
      return base::real_clock().seconds() - begin;
    };
  }

  std::vector<LatencyCase> latencies() const override {
    at::Tensor one = at::ones({1});
    return {{"tensor operation", timed([one]() mutable { one.add_(1); })}};
  }

 private:
  CpuPeak peak_;
};

}  // namespace

std::unique_ptr<TimedDevice> cpu_device(double peak_seconds) { return std::make_unique<Cpu>(peak_seconds); }

}  // namespace hyperion::bench
