// What the processes of a pipeline tell each other of a step: when each computed what.
#pragma once
#include <string>
#include <vector>

#include "hyperion/strategy/plan_walk.h"

namespace hyperion::report {

std::string to_json(const std::vector<strategy::TimedWork>& times);
// `told`: by rank of the plan, each as `to_json` has it.
strategy::PlanWalk read_walk(const strategy::Plan& plan, const std::vector<std::string>& told);

}  // namespace hyperion::report
