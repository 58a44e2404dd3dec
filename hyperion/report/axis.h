// One axis of a plot: its range, where its ticks stand and what they say.
#pragma once
#include <string>
#include <vector>

namespace hyperion::report {

struct Tick {
  double value;
  std::string label;  // "0.5", "20k", "1.5M", "3e-4"; those of one axis share decimals and suffix
};

struct Axis {
  double low = 0, high = 1;  // low < high; both above 0 where log
  bool log = false;
  std::vector<Tick> ticks;  // ascending, all inside [low, high]

  double fraction(double value) const;  // 0 at low, 1 at high
};

// Ticks at 1, 2 or 5 times a power of ten (log: at decades, with 2 and 5 between where there are few). The range goes
// down to 0 where that costs little, and `round_out` widens it to round figures. A range of one value is widened around
// it.
Axis make_axis(double low, double high, bool log, int wanted_ticks, bool round_out);

// Ticks at these ascending values of a log axis instead: sizes that were measured say more than the decades between
// them.
void tick_at(Axis& axis, const std::vector<double>& values);

}  // namespace hyperion::report
