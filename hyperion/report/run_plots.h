// The curves every run has.
#pragma once
#include <vector>

#include "hyperion/report/metrics.h"
#include "hyperion/report/plot.h"

namespace hyperion::report {

// Loss (training and each split), learning rate, gradient norm, tokens a second, step time by phase: in this order.
// An axis turns logarithmic where a few outliers would press all else flat.
std::vector<Plot> run_plots(const Metrics& metrics, const std::string& unit = "token");

}  // namespace hyperion::report
