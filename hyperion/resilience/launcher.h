// `hyperion launch`: starts the ranks of a job, hosts the store where they meet, and sees them to their end.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/resilience/job.h"
#include "hyperion/resilience/rank_output.h"

namespace hyperion::resilience {

struct LaunchPlan {
  int ranks = 1;
  std::vector<std::string> command;  // a program and its arguments, run once a rank
  base::Path logs;                   // the folder for what ranks print
  std::string job;                   // its name, for ranks to tell
  Show show = Show::rank0;
  bool bind_cores = true;
  std::string listen = "127.0.0.1";  // where the store listens
  int port = 0;                      // 0: one of the system's choosing
  JobLimits limits;
};

// Returns the job's exit code (job.h). Ranks get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT, HYPERION_JOB, HYPERION_JOB_SECRET, and OMP_NUM_THREADS where it is not set. Call it before any thread is
// started.
int launch(const LaunchPlan& plan);

}  // namespace hyperion::resilience
