#include "hyperion/analysis/intervals.h"

#include <algorithm>
#include <limits>

namespace hyperion::analysis {

int64_t length_of(const Intervals& merged) {
  int64_t sum = 0;
  for (const auto& interval : merged) sum += interval.end - interval.begin;
  return sum;
}

int64_t overlap_of(const Intervals& a, const Intervals& b) {
  const auto times = time_by_mask({a, b, {}});
  return times[3];
}

std::array<int64_t, 8> time_by_mask(const std::array<Intervals, 3>& unions) {
  constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  std::array<int64_t, 8> times = {};
  std::array<size_t, 3> at = {};
  std::array<bool, 3> within = {};
  int64_t now = 0;
  for (;;) {
    int64_t next = kNever;
    size_t mask = 0;
    for (size_t k = 0; k < 3; ++k) {
      if (within[k]) mask |= size_t{1} << k;
      if (at[k] < unions[k].size()) next = std::min(next, within[k] ? unions[k][at[k]].end : unions[k][at[k]].begin);
    }
    if (next == kNever) return times;
    if (mask != 0) times[mask] += next - now;
    now = next;
    for (size_t k = 0; k < 3; ++k) {
      if (at[k] == unions[k].size()) continue;
      if (!within[k] && unions[k][at[k]].begin == now) within[k] = true;
      if (within[k] && unions[k][at[k]].end == now) within[k] = false, ++at[k];
    }
  }
}

}  // namespace hyperion::analysis
