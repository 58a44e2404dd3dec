// What the control groups above this process allow it: the tightest limit from its own group up to the root.
#pragma once
#include <cstdint>
#include <optional>

#include "hyperion/base/files.h"

namespace hyperion::host {

struct CgroupLimits {
  std::optional<double> cpus;  // 1.5: one and a half cores' time
  std::optional<uint64_t> memory_bytes;
};

// Version 2 (cpu.max, memory.max) and version 1 (cpu.cfs_quota_us, memory.limit_in_bytes). Nothing set: no limit.
CgroupLimits cgroup_limits(const base::Path& root = "/");

}  // namespace hyperion::host
