// Line plots as SVG text: small, self-contained, readable on light and dark pages.
#pragma once
#include <string>
#include <vector>

namespace hyperion::report {

struct Series {
  std::string name;
  std::vector<double> x, y;  // equally long; points that are not finite break the line
  // Or points by themselves, without a line: what each is, told where it is pointed at, and beside it where `beside`.
  struct Point {
    std::string name;
    bool beside = false;
  };
  std::vector<Point> points = {};
};

struct Plot {
  std::string title, x_label, y_label;
  bool log_x = false, log_y = false;
  std::vector<Series> series;
  int width = 640, height = 360;
};

// One <svg> element. Few or no points still give a readable picture that says so.
std::string svg(const Plot& plot);

}  // namespace hyperion::report
