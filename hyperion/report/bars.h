// Horizontal bars as SVG text: a value for each of some names, in groups.
#pragma once
#include <string>
#include <vector>

namespace hyperion::report {

struct Bar {
  std::string name;   // before the bar
  double value = 0;   // not finite or below 0: no bar, only the text
  std::string shown;  // after it: "55.1 ms"
  int color = 0;      // bars of one kind share one
};

struct BarGroup {
  std::string name;
  std::vector<Bar> bars;
};

enum class BarScale { group, shared };  // bars are as long as they are large, in their group or in all

// One <svg> element, as high as it needs to be.
std::string bars_svg(const std::string& title, const std::vector<BarGroup>& groups, BarScale scale = BarScale::group,
                     int width = 720);

}  // namespace hyperion::report
