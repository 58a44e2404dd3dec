// Ranks on another machine, through a node agent (node_agent.h) that a remote shell starts there.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/base/shell.h"
#include "hyperion/resilience/node_plan.h"
#include "hyperion/resilience/ranks.h"

namespace hyperion::resilience {

struct RemoteNode {
  std::string host;
  std::vector<std::string> shell;  // {"ssh", "-o", "BatchMode=yes"}
  std::string program, folder;     // there
  double greeting_seconds = 120;   // until the agent must have answered
  double last_seconds = 1;         // from SIGKILL for the ranks to SIGKILL for the shell
};

// Runs `shell` with the host and a command line for it: `program launch --agent` in `folder`. The plan, with the job's
// secret, goes through its standard input. Where the connection is lost, or the agent does not answer, the ranks that
// still ran have failed with code 255. The shell, in a process group of its own, lives no longer than this or than the
// launcher, whatever it waits for.
std::unique_ptr<Ranks> start_remote_ranks(const RemoteNode& node, const NodePlan& plan, Guardian& guardian);

using base::shell_quoted;

}  // namespace hyperion::resilience
