// Memory in use: of the process, or of the GPU's caching allocator.
#pragma once
#include <cstdint>
#include <optional>

namespace hyperion::profile {

struct MemoryUse {
  std::optional<int64_t> allocated, reserved, peak;  // bytes
};
MemoryUse memory_use(bool gpu);

// The GPU's peak counts from here; nothing for the process, whose peak cannot be set back.
void reset_peak(bool gpu);
// Gives memory that is kept for later back to the GPU.
void release_cached_memory(bool gpu);

}  // namespace hyperion::profile
