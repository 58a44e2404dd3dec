// The checks of this machine before a job starts: `hyperion doctor`.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/doctor/check.h"
#include "hyperion/doctor/machine_checks.h"
#include "hyperion/doctor/table.h"

namespace hyperion::doctor {

struct DoctorOptions {
  base::Path runs_folder = "runs";            // need not exist yet; nothing is left in it
  bool quick = false;                         // skips what is tried: the disk's write, the CPU's types
  std::function<CpuSlowdown()> try_cpu = {};  // measures it; empty: judged by the CPU's features
};

// Gathers the facts and judges them; a few seconds at most. Never throws for what it finds: that is a Check with
// verdict fail.
std::vector<Check> examine(const DoctorOptions& options);

}  // namespace hyperion::doctor
