// Ranks as processes of this machine. Each leads a process group of its own, reads nothing from the terminal, and dies
// with this process, as does all that it started.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/resilience/guardian.h"
#include "hyperion/resilience/ranks.h"

namespace hyperion::resilience {

struct LocalRank {
  int rank = 0;
  std::vector<std::string> environment;  // NAME=VALUE, on top of this process's own
  std::vector<int> cores;                // to be bound to; empty: not bound
};

// Starts `command` once a rank. `dropped` names variables of this process that no rank shall see; one that ends in *
// means all that begin so. Throws Error where the program cannot be started.
std::unique_ptr<Ranks> start_local_ranks(const std::vector<LocalRank>& ranks, const std::vector<std::string>& command,
                                         const std::vector<std::string>& dropped, Guardian& guardian);

}  // namespace hyperion::resilience
