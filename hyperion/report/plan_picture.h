// A plan's pipeline as a picture: who computes which micro-batch when.
#pragma once
#include <string>

#include "hyperion/strategy/plan_walk.h"

namespace hyperion::report {

// One <svg> element: a row for each process of pp, of those that are first along every other axis.
std::string plan_svg(const std::string& title, const strategy::Plan& plan, const strategy::PlanWalk& walk);

// Both one above the other in one measure of time. The plan is of one pipeline; `ranks`: what its ranks are in the run.
std::string pipeline_svg(const std::string& title, const strategy::Plan& plan, const strategy::PlanWalk& planned,
                         const strategy::PlanWalk& ran, const std::vector<int>& ranks);

// The same in letters, a column for each `unit` of time: a forward as the micro-batch's digit, a backward as its
// letter. Empty where that would be wider than `most` columns, or there are more micro-batches than digits.
std::string plan_letters(const strategy::Plan& plan, const strategy::PlanWalk& walk, double unit, size_t most = 150);

}  // namespace hyperion::report
