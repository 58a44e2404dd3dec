// The curves every run has, of one run or of several over each other.
#pragma once
#include <string>
#include <vector>

#include "hyperion/report/metrics.h"
#include "hyperion/report/plot.h"

namespace hyperion::report {

// Loss (training and each split), learning rate, gradient norm, tokens a second, step time by phase: in this order.
// An axis turns logarithmic where a few outliers would press all else flat.
std::vector<Plot> run_plots(const Metrics& metrics, const std::string& unit = "token");

struct NamedMetrics {
  std::string name;
  const Metrics* metrics;
};

// A line for each run: training loss, validation loss where there is one, training loss over time, learning rate,
// gradient norm, speed.
std::vector<Plot> compared_plots(const std::vector<NamedMetrics>& runs, const std::string& unit);

}  // namespace hyperion::report
