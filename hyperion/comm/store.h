// Where the ranks of a job meet, as c10d wants it. The only way in: whoever started the job, it finds the right store.
#pragma once
#include <c10/util/intrusive_ptr.h>

#include <chrono>

#include "hyperion/comm/store_connection.h"
#include "hyperion/host/launch.h"

namespace c10d {
class Store;
}

namespace hyperion::comm {

constexpr std::chrono::seconds kMeetingTimeout{300};

// The store of the job that this process is a rank of; to be called once by each rank, early: it may fork.
// - alone, or a job of one: a store of this process's own
// - `hyperion launch`: the launcher's, with the job's secret; heartbeats begin
// - torchrun: its agent's, as it is
// - SLURM, Open MPI, PMI, Kubernetes, or torchrun's variables set by hand: rank 0 forks a small process that hosts one
//   with the job's secret on launch.master_address and master_port (both have defaults on one machine)
// `timeout` is how long a rank waits for the store to appear and, in every later operation, for a key.
// Throws StoreLost or ConfigError that says what to do, Interrupted where a signal asked this process to stop before a
// store was found. Its operations throw c10::DistError, as c10d's stores do.
c10::intrusive_ptr<c10d::Store> connect_store(const host::Launch& launch,
                                              std::chrono::milliseconds timeout = kMeetingTimeout);

// While it lives, what this thread waits for at that store it gives up with Interrupted once a signal asks the process
// to stop (base/signals.h). For the start of a job, when there is nothing to save.
class InterruptibleWait {
 public:
  InterruptibleWait();
  ~InterruptibleWait();
  InterruptibleWait(const InterruptibleWait&) = delete;
  InterruptibleWait& operator=(const InterruptibleWait&) = delete;
};

// A client of one store server, safe from any thread. The first connection is made here, others as threads need them.
c10::intrusive_ptr<c10d::Store> store_client(const StoreAddress& address, std::chrono::milliseconds timeout);

}  // namespace hyperion::comm
