#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include "hyperion/base/clock.h"
#include "hyperion/bench/device.h"
#include "hyperion/bench/empty_kernel.h"
#include "hyperion/gpu/torch.h"

namespace hyperion::bench {
namespace {

void launch() { launch_empty_kernel(c10::cuda::getCurrentCUDAStream().stream()); }

class Gpu final : public TimedDevice {
 public:
  c10::Device place() const override { return c10::Device(c10::kCUDA, c10::cuda::current_device()); }
  std::string name() const override { return at::cuda::getCurrentDeviceProperties()->name; }

  std::vector<std::string> dtypes() const override {
    const auto* properties = at::cuda::getCurrentDeviceProperties();
    const int capability = properties->major * 10 + properties->minor;
    std::vector<std::string> dtypes = {"fp32"};
    if (capability >= 80) dtypes.push_back("tf32");
    dtypes.push_back("fp16");
    if (capability >= 80) dtypes.push_back("bf16");
    if (capability >= 89) dtypes.push_back("fp8");
    return dtypes;
  }

  host::Peaks peaks() const override {
    const host::Peaks* known = host::find_peaks(name());
    return known ? *known : host::Peaks{};
  }
  std::string peak_source() const override {
    return host::find_peaks(name()) ? "datasheet, dense" : "not known for this GPU";
  }

  uint64_t free_bytes() const override {
    c10::cuda::CUDACachingAllocator::emptyCache();
    size_t free = 0, total = 0;
    C10_CUDA_CHECK(gpu::mem_get_info(&free, &total));
    return free;
  }
  bool has_transfers() const override { return true; }

  profile::Block timed(std::function<void()> work) const override {
    return [work = std::move(work)](int64_t calls) {
      at::cuda::CUDAEvent begin(gpu::kEventDefault), end(gpu::kEventDefault);
      begin.record();
      for (int64_t call = 0; call < calls; ++call) work();
      end.record();
      end.synchronize();
      return begin.elapsed_time(end) / 1e3;
    };
  }

  profile::Block replayed(std::function<void()> work, std::string& why_not) const override {
    why_not.clear();
    const auto graph = captured(work, why_not);
    if (graph == nullptr) return timed(std::move(work));
    // The work's own tensors live with it.
    return [graph, work = std::move(work)](int64_t calls) {
      const int64_t replays = (calls + kCaptured - 1) / kCaptured;
      at::cuda::CUDAEvent begin(gpu::kEventDefault), end(gpu::kEventDefault);
      begin.record();
      for (int64_t replay = 0; replay < replays; ++replay) graph->replay();
      end.record();
      end.synchronize();
      return begin.elapsed_time(end) / 1e3 * static_cast<double>(calls) / static_cast<double>(replays * kCaptured);
    };
  }

  std::shared_ptr<void> own_stream() const override {
    return std::make_shared<c10::cuda::CUDAStreamGuard>(c10::cuda::getStreamFromPool());
  }

  std::vector<LatencyCase> latencies() const override {
    at::Tensor one = at::ones({1}, at::TensorOptions().device(place()));
    return {{"kernel launch", timed(launch)},
            {"launch and wait", launch_and_wait},
            {"tensor operation", timed([one]() mutable { one.add_(1); })}};
  }

 private:
  static constexpr int64_t kCaptured = 20;  // calls in a graph: its own launch is then a small part

  static std::shared_ptr<at::cuda::CUDAGraph> captured(const std::function<void()>& work, std::string& why_not) {
    for (int warm = 0; warm < 3; ++warm) work();  // libraries set up what they must not while a capture is on
    C10_CUDA_CHECK(gpu::device_synchronize());
    auto graph = std::make_shared<at::cuda::CUDAGraph>();
    try {
      // Thread-local: the autograd engine's threads record too.
      graph->capture_begin({0, 0}, gpu::kCaptureThreadLocal);
      for (int64_t call = 0; call < kCaptured; ++call) work();
      graph->capture_end();
      return graph;
    } catch (const std::exception& error) {
      why_not = error.what();
      why_not = why_not.substr(0, why_not.find('\n'));
    }
    try {
      graph->capture_end();  // a capture that failed must still be ended
    } catch (const std::exception&) {
    }
    static_cast<void>(gpu::get_last_error());
    return nullptr;
  }

  static double launch_and_wait(int64_t calls) {
    const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
    const double begin = base::real_clock().seconds();
    for (int64_t call = 0; call < calls; ++call) {
      launch();
      stream.synchronize();
    }
    return base::real_clock().seconds() - begin;
  }
};

}  // namespace

std::unique_ptr<TimedDevice> gpu_device(std::string& why) {
  if (c10::cuda::device_count() == 0) {
    why = "no CUDA device is visible";
    return nullptr;
  }
  return std::make_unique<Gpu>();
}

}  // namespace hyperion::bench
