// The GPU's side of timers and memory; a stub stands in where the build has none.
#pragma once
#include <memory>

namespace hyperion::profile {

class StepTimer;
struct MemoryUse;

std::unique_ptr<StepTimer> make_gpu_step_timer();
MemoryUse gpu_memory_use();
void reset_gpu_peak();
void release_gpu_cache();

}  // namespace hyperion::profile
