#include "hyperion/profile/memory.h"

#include <cstdio>

#include "hyperion/profile/gpu.h"

namespace hyperion::profile {

MemoryUse memory_use(bool gpu) {
  if (gpu) return gpu_memory_use();
  MemoryUse use;
  std::FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return use;
  char line[256];
  long kibibytes = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmRSS: %ld", &kibibytes) == 1) use.allocated = int64_t{kibibytes} * 1024;
    if (std::sscanf(line, "VmHWM: %ld", &kibibytes) == 1) use.peak = int64_t{kibibytes} * 1024;
  }
  std::fclose(status);
  return use;
}

void reset_peak(bool gpu) {
  if (gpu) reset_gpu_peak();
}

void release_cached_memory(bool gpu) {
  if (gpu) release_gpu_cache();
}

}  // namespace hyperion::profile
