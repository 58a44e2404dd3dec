// What one machine does for a job: which ranks it starts, and what they are told.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/json.h"
#include "hyperion/resilience/guardian.h"
#include "hyperion/resilience/local_ranks.h"

namespace hyperion::resilience {

// Of a job that was started again.
struct StartedAgain {
  int times = 0;    // 0: it was not
  std::string why;  // what ended it before
};

struct NodePlan {
  int node = 0;
  int first_rank = 0, ranks = 1, world = 1;
  std::string master;  // the store's address as ranks reach it
  int port = 0;
  std::string job, secret;
  std::vector<std::string> command;      // a program and its arguments, run once a rank
  std::vector<std::string> environment;  // NAME=VALUE of the launcher that a rank elsewhere shall have too
  std::string bind = "auto";             // as LaunchPlan
  StartedAgain again = {};
};

base::Json to_json(const NodePlan& plan);
NodePlan node_plan_from_json(const base::Json& json);

// Starts its ranks on this machine. They get RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, GROUP_RANK (the node),
// MASTER_ADDR, MASTER_PORT, HYPERION_JOB, HYPERION_JOB_SECRET, OMP_NUM_THREADS where it is not set, and of a
// job that was started again TORCHELASTIC_RESTART_COUNT and HYPERION_RESTARTED_AFTER, which says why.
std::unique_ptr<Ranks> start_node(const NodePlan& plan, Guardian& guardian);

// Variables of this process that ranks on other machines shall see: settings of hyperion and of what is under it.
std::vector<std::string> travelling_environment();

}  // namespace hyperion::resilience
