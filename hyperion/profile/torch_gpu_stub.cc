#include "hyperion/base/error.h"
#include "hyperion/profile/gpu.h"
#include "hyperion/profile/memory.h"
#include "hyperion/profile/step_timer.h"

namespace hyperion::profile {

std::unique_ptr<StepTimer> make_gpu_step_timer() {
  throw base::Error("this build has no GPU timers", "build the cuda preset");
}
MemoryUse gpu_memory_use() { return {}; }

void reset_gpu_peak() {}
void release_gpu_cache() {}

}  // namespace hyperion::profile
