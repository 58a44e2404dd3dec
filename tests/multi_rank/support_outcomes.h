// What outcomes of cases must be: those of one process alone, and what a plan says.
#pragma once
#include "tests/multi_rank/support_cases.h"

namespace hyperion::testing {

// The largest of two lists of numbers; infinite where they are not alike.
double distance(const json& a, const json& b);

// Losses, norms and routes. Prints a line a case, for docs/. `environment` is that of the ranks, not of the one alone.
void expect_as_alone(int ranks, Cases cases, const Environment& environment = {}, double limit = 1e-5);

// Bytes held and sent.
void expect_as_planned(const Outcomes& found);

}  // namespace hyperion::testing
