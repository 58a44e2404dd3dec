// Main memory, in bytes.
#pragma once
#include <cstdint>
#include <optional>

#include "hyperion/base/files.h"

namespace hyperion::host {

struct Memory {
  uint64_t total = 0;                    // 0: unknown
  uint64_t available = 0;                // could be taken now without swapping
  std::optional<uint64_t> cgroup_limit;  // of this process's control group

  uint64_t usable() const;  // the most this process could hold
};

Memory memory(const base::Path& root = "/");

}  // namespace hyperion::host
