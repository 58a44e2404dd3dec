// A store in a process of its own, for jobs whose launcher hosts none (srun, mpirun): no frozen rank freezes it.
#pragma once
#include "hyperion/comm/store_server.h"

namespace hyperion::comm {

// Listens, then forks the process that serves. It ends once this process has ended, after a moment for the ranks that
// still use it. Throws Error where it cannot listen. To be called before this process starts threads.
void fork_store(const StoreServerOptions& options);

}  // namespace hyperion::comm
