// Line plots as SVG text: small, self-contained, readable on light and dark pages.
#pragma once
#include <string>
#include <vector>

#include "hyperion/report/series.h"

namespace hyperion::report {

struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<Series> series;
  int width = 640, height = 360;
};

// One <svg> element. Few or no points still give a readable picture that says so.
std::string svg(const Plot& plot);

}  // namespace hyperion::report
