// Ranks on another machine, through a node agent (node_agent.h) that a remote shell starts there.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/base/shell.h"
#include "hyperion/resilience/node_plan.h"
#include "hyperion/resilience/ranks.h"

namespace hyperion::resilience {

// Runs `shell` (such as {"ssh", "-o", "BatchMode=yes"}) with the host and a command line for it: `program launch
// --agent` in `folder`. The plan, with the job's secret, goes through its standard input. Where the connection is lost,
// the ranks that still ran have failed with code 255.
std::unique_ptr<Ranks> start_remote_ranks(const std::string& host, const NodePlan& plan,
                                          const std::vector<std::string>& shell, const std::string& program,
                                          const std::string& folder);

using base::shell_quoted;

}  // namespace hyperion::resilience
