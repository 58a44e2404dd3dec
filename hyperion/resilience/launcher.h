// `hyperion launch`: starts the ranks of a job, hosts the store where they meet, and sees them to their end.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/resilience/job.h"
#include "hyperion/resilience/rank_output.h"
#include "hyperion/resilience/restart_policy.h"

namespace hyperion::resilience {

struct Node {
  std::string host;
  int slots = 1;
  bool here() const;  // this machine: no remote shell is needed
};
// "gpu07:4,gpu08:4"; a host alone has one slot. Throws ConfigError.
std::vector<Node> parse_nodes(const std::string& text);

struct LaunchPlan {
  int ranks = 0;                     // 0: as many as the nodes have slots
  std::vector<Node> nodes;           // filled in order; empty: this machine alone
  std::vector<std::string> command;  // a program and its arguments, run once a rank
  base::Path logs;                   // the folder for what ranks print
  std::string job;                   // its name, for ranks to tell
  Show show = Show::rank0;
  std::string bind = "auto";  // which cores ranks get: gpu, cores, none, or auto of the first two
  std::string listen;         // where the store listens; empty: 127.0.0.1, which only does for this machine
  int port = 0;               // 0: one of the system's choosing
  std::vector<std::string> remote_shell = {"ssh", "-o", "BatchMode=yes"};
  // One launcher a machine, each started by someone else (a pod's): this is the one of machine `node` of `node_count`.
  // The first hosts the store, at `master` and `port`; all know the same HYPERION_JOB_SECRET.
  int node = 0, node_count = 1;
  std::string master;
  JobLimits limits;
  std::function<double()> slow_step;   // of that run (job.h); an empty function: frozen_seconds alone counts
  bool resumable = false;              // the command is a training run's (job.h)
  RestartSettings restarts;            // none: the first failure ends the job
  std::function<Standing()> standing;  // of the run that the command trains; an empty function: it trains none
};

// Returns the job's exit code (job.h). Call it before any thread is started.
int launch(const LaunchPlan& plan);

}  // namespace hyperion::resilience
