// Tokens whose experts other processes hold: brought there, and their answers back (GShard; Lepikhin et al., 2020).
#pragma once
#include <cstdint>

#include "hyperion/nn/dispatch.h"

namespace hyperion::nn {

class ExpertPeers;

// How many experts of so many a process holds, neighbours together, and the first of them.
struct OwnExperts {
  int64_t first, count;
};
OwnExperts own_experts(int64_t experts, const ExpertPeers* peers);

// Of rows that `here` has sorted by all experts, all processes' rows for this one's experts: those of its first expert
// first, and of each expert in the order of the processes. What it combines finds its way home. All ask alike, be it
// for no row. `trained`: some expert, here or elsewhere, gets gradients.
Dispatched among_peers(const Dispatched& here, ExpertPeers& peers, bool trained);

}  // namespace hyperion::nn
