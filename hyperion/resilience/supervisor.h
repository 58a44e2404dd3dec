// Starts a job again after it failed. Each start is a process of its own, with the store and all that watches the
// ranks, so that even what kills that process ends one start and not the job.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "hyperion/resilience/restart_policy.h"

namespace hyperion::resilience {

struct Supervised {
  RestartSettings restarts;
  bool resumable = false;  // as JobSettings
  // How far the job's run is; an empty function where it is no run's.
  std::function<Standing()> standing;
  // One start of the job, in a process of its own: the `number`-th again, 0 at first, after what `why` says.
  std::function<JobEnd(int number, const std::string& why)> start;
};

// Returns the job's exit code, that of its last start. Call it before any thread is started. In the processes that it
// makes it returns too, with what `start` did, or throws what that threw.
int supervise(const Supervised& job);

}  // namespace hyperion::resilience
