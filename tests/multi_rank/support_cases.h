// Cases (tests/multi_rank/cases.h) trained by real processes, and what each of them tells.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/multi_rank/support_launch.h"

namespace hyperion::testing {

using nlohmann::json;
using Cases = std::vector<std::string>;
using Outcomes = std::map<std::string, json>;

bool on_gpu();
Outcomes train(int ranks, const Cases& cases, const Environment& environment = {});

// What one process alone must do to compute the same: as many parts, or with synchronized batch norms one whole batch.
std::string alone(const std::string& text, int ranks);

// Every family in every layout of so many processes (2, 4 or 8) in which the model itself lies on several.
Cases all_layouts(int ranks);
Cases layouts_with_divided_backwards(int ranks);  // of 2 or 4: for schedules that make gradients of weights apart

}  // namespace hyperion::testing
