#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "hyperion/base/clock.h"
#include "hyperion/base/format.h"
#include "hyperion/bench/cpu_peak.h"
#include "hyperion/bench/device.h"
#include "hyperion/host/cpu.h"
#include "hyperion/host/memory.h"

namespace hyperion::bench {
namespace {

class Cpu final : public TimedDevice {
 public:
  // The peak of the threads that products run on; more than there are cores would count a core twice.
  explicit Cpu(double peak_seconds)
      : facts_(host::this_cpu()),
        peak_(measure_cpu_peak(std::min(at::get_num_threads(), facts_.usable_cores()), peak_seconds)) {}

  c10::Device place() const override { return c10::Device(c10::kCPU); }
  std::string name() const override { return base::format("{}, {} cores", facts_.model, facts_.usable_cores()); }
  std::vector<std::string> dtypes() const override { return {"fp32", "fp16", "bf16"}; }
  host::Peaks peaks() const override {
    host::Peaks peaks;
    peaks.fp32 = peak_.tflops;
    return peaks;
  }
  std::string peak_source() const override {
    return base::format("measured: {:.4f} TFLOP/s fp32 ({} multiply-adds on {} thread{})", peak_.tflops, peak_.vectors,
                        peak_.threads, peak_.threads == 1 ? "" : "s");
  }
  uint64_t free_bytes() const override { return host::memory().usable(); }
  bool has_transfers() const override { return false; }

  profile::Block timed(std::function<void()> work) const override {
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
  host::Cpu facts_;
  CpuPeak peak_;
};

}  // namespace

std::unique_ptr<TimedDevice> cpu_device(double peak_seconds) { return std::make_unique<Cpu>(peak_seconds); }

}  // namespace hyperion::bench
