#include <ATen/Context.h>

#include <vector>

#include "hyperion/gpu/torch.h"
#include "hyperion/profile/gpu.h"
#include "hyperion/profile/memory.h"
#include "hyperion/profile/step_timer.h"

namespace hyperion::profile {
namespace {

class GpuStepTimer final : public StepTimer {
 public:
  GpuStepTimer() { record(); }

  void mark(Phase phase) override {
    record();
    phases_.push_back(phase);
  }

  PhaseTimes milliseconds() override {
    PhaseTimes times{};
    events_.back().synchronize();
    for (size_t i = 0; i < phases_.size(); ++i)
      times[static_cast<size_t>(phases_[i])] += events_[i].elapsed_time(events_[i + 1]);
    return times;
  }

 private:
  void record() { events_.emplace_back(gpu::kEventDefault).record(); }
  std::vector<at::cuda::CUDAEvent> events_;
  std::vector<Phase> phases_;
};

// Before PyTorch has begun with the GPU its allocator knows no device.
void begin() { at::globalContext().lazyInitDevice(c10::DeviceType::CUDA); }

}  // namespace

std::unique_ptr<StepTimer> make_gpu_step_timer() { return std::make_unique<GpuStepTimer>(); }

MemoryUse gpu_memory_use() {
  begin();
  const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
  const auto& allocated = stats.allocated_bytes[0];
  return {allocated.current, stats.reserved_bytes[0].current, allocated.peak};
}

void reset_gpu_peak() {
  begin();
  c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
}
void release_gpu_cache() { c10::cuda::CUDACachingAllocator::emptyCache(); }

}  // namespace hyperion::profile
