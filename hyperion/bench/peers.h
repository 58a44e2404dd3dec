// PyTorch's own step of the same workload, timed the same way, in a process of its own.
#pragma once
#include <string>
#include <vector>

#include "hyperion/bench/train_row.h"
#include "hyperion/bench/workloads.h"

namespace hyperion::bench {

// script/peers/torch_peers.py: in the working folder, or above this program's own. Empty where it is not.
base::Path peers_script();

// What --peer-modes takes. Of documents there are two forms, side by side in rows and one a row; a mode that names none
// means both.
const std::vector<std::string>& all_peer_modes();

// Of the modes that were asked for, those of this config: without documents forms mean nothing, and with them there are
// no CUDA graphs.
std::vector<std::string> peer_modes(const train::RunConfig& config, const std::vector<std::string>& asked);

// Throws ConfigError where the peers could not train the same.
void check_peers(const train::RunConfig& config, const std::vector<std::string>& asked);

// The row of a mode, in a process of its own: what one compiled or cached, the next does not find. Where python3 (or
// HYPERION_PYTHON) has no torch, or the mode fails, the row says so.
TrainRow run_peer(const Workload& workload, const train::RunConfig& config, const std::string& mode, int64_t steps,
                  const std::string& device);

}  // namespace hyperion::bench
