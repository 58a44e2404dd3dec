// When a GPU had nothing to do: the time between kernels of a trace.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hyperion::profile {

// One piece of work on the device; on a CPU an operation without those it calls.
struct TracedSpan {
  std::string name;
  int64_t begin = 0, end = 0;  // nanoseconds
  int64_t stream = 0;
  bool continued = false;  // a further stretch of an operation that was interrupted by one it called
};

struct Gap {
  int64_t nanoseconds = 0;
  std::string before, after;  // the work it lies between
};

struct Gaps {
  double window_ms = 0;     // from the first begin to the last end
  double busy_ms = 0;       // something ran, on any stream
  double all_percent = 0;   // of the window, nothing ran
  double long_percent = 0;  // likewise, only gaps longer than the threshold
  int64_t count = 0, long_count = 0;
  std::vector<Gap> longest;  // the longest first, at most ten
};

// In any order; streams may overlap. No spans give zeros.
Gaps gaps_between(const std::vector<TracedSpan>& spans, double threshold_us = 3);

}  // namespace hyperion::profile
