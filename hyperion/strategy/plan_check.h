// Whether a plan can be carried out, found without running it: every stage runs every micro-batch once, with what it
// needs; every send has its receive, of the same thing; every collective is asked for by its whole group in the same
// order; nobody waits for ever; and no rank keeps more than the plan says.
#pragma once
#include <optional>

#include "hyperion/strategy/plan_walk.h"

namespace hyperion::strategy {

// The first defect that is found; none: it can.
std::optional<PlanDefect> find_defect(const Plan& plan);

// Throws ConfigError that names the rank and the instruction of a defect.
void check(const Plan& plan);

}  // namespace hyperion::strategy
