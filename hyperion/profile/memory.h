// Memory in use: of the process, or of the GPU's caching allocator.
#pragma once
#include <cstdint>
#include <optional>

namespace hyperion::profile {

struct MemoryUse {
  std::optional<int64_t> allocated, reserved, peak;  // bytes
};
MemoryUse memory_use(bool gpu);

}  // namespace hyperion::profile
