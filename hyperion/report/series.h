// What a plot shows.
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

}  // namespace hyperion::report
