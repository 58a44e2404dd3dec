// Which processor cores this process may use, and how the processes of a job share them.
#pragma once
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::host {

std::vector<int> allowed_cores();  // by the affinity mask of this process, ascending; empty: unknown

// One share of `cores` for each process, alike in size but for one core, in the order of NUMA nodes and of physical
// cores, so that a process stays in one node where that can be. Empty where there are fewer cores than processes:
// then nobody should be bound. `root` is "/" but in tests.
std::vector<std::vector<int>> share_cores(const base::Path& root, std::vector<int> cores, int processes);

// The numbers that a list such as "0-3,8" names, as far as it can be read.
std::vector<int> listed_numbers(std::string_view list);

}  // namespace hyperion::host
