// Stretches of time on a line.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace hyperion::analysis {

struct Interval {
  int64_t begin = 0, end = 0;  // nanoseconds; end is not within
  bool operator==(const Interval&) const = default;
};
using Intervals = std::vector<Interval>;

// A union, grown by intervals that come in the order of their begins; parts that touch are one.
inline void add_interval(Intervals& merged, Interval next) {
  if (!merged.empty() && next.begin <= merged.back().end) {
    if (next.end > merged.back().end) merged.back().end = next.end;
  } else {
    merged.push_back(next);
  }
}

int64_t length_of(const Intervals& merged);
int64_t overlap_of(const Intervals& a, const Intervals& b);  // of two unions

// How long exactly which of three unions ran: [1] the first alone, [2] the second, [3] both of these, [4] the third,
// ...
std::array<int64_t, 8> time_by_mask(const std::array<Intervals, 3>& unions);

}  // namespace hyperion::analysis
