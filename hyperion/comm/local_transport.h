// Ranks that are threads of one process: for tests, and for a run of one. Data really moves; a rank that calls another
// operation, or with another size, than its peers is named; a rank that stays away is named after the timeout.
#pragma once
#include <chrono>
#include <memory>
#include <vector>

#include "hyperion/comm/transport.h"

namespace hyperion::comm {

// One for each rank; they keep what they share alive.
std::vector<std::unique_ptr<Transport>> make_local_transports(
    int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace hyperion::comm
