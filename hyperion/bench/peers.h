// PyTorch's own step of the same workload, timed the same way, in a process of its own.
#pragma once
#include <string>
#include <vector>

#include "hyperion/bench/train.h"

namespace hyperion::bench {

// script/peers/torch_peers.py: in the working folder, or above this program's own. Empty where it is not.
base::Path peers_script();

// A row for each mode. Where python3 (or HYPERION_PYTHON) has no torch, or a mode fails, its row says so.
std::vector<TrainRow> run_peers(const Workload& workload, const train::RunConfig& config,
                                const TrainBenchOptions& options, const std::string& device);

}  // namespace hyperion::bench
