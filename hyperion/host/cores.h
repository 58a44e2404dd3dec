// Which processor cores this process may use, and how the processes of a job share them.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::host {

std::vector<int> allowed_cores();  // by the affinity mask of this process, ascending; empty: unknown

// One share of `cores` for each process, alike in size but for one core, in the order of NUMA nodes and of physical
// cores, so that a process stays in one node where that can be. Empty where there are fewer cores than processes:
// then nobody should be bound. `root` is "/" but in tests.
std::vector<std::vector<int>> share_cores(const base::Path& root, std::vector<int> cores, int processes);

// The same where process i uses a GPU of NUMA node nodes[i]: its cores are that node's. Empty where a node is not known
// (-1) or has fewer cores than processes.
std::vector<std::vector<int>> share_cores_by_node(const base::Path& root, const std::vector<int>& cores,
                                                  const std::vector<int>& nodes);

// Which GPUs this process was told to use: CUDA_VISIBLE_DEVICES, which AMD's runtime knows too, else
// HIP_VISIBLE_DEVICES. Null: all.
const char* visible_devices();

// The NUMA node of each GPU (NVIDIA's and AMD's) in the order of the bus, -1 where it has none; only those that
// `visible` (as above) names, in its order, and none where it names them by anything but number.
std::vector<int> gpu_nodes(const base::Path& root, const char* visible);

// "0-3,8", and the NUMA nodes they belong to: "0", "0,1"; empty: not told.
std::string cores_text(const std::vector<int>& cores);
std::string nodes_text(const base::Path& root, const std::vector<int>& cores);

// The numbers that a list such as "0-3,8" names, as far as it can be read.
std::vector<int> listed_numbers(std::string_view list);

}  // namespace hyperion::host
