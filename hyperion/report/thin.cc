#include "hyperion/report/thin.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"

namespace hyperion::report {
namespace {

// Indices of what must be kept of [begin, end): lowest, highest, first gap.
void keep_extremes(const std::vector<double>& y, size_t begin, size_t end, std::vector<size_t>& kept) {
  size_t lowest = end, highest = end, gap = end;
  for (size_t i = begin; i < end; ++i) {
    if (!std::isfinite(y[i])) {
      gap = std::min(gap, i);
      continue;
    }
    if (lowest == end || y[i] < y[lowest]) lowest = i;
    if (highest == end || y[i] > y[highest]) highest = i;
  }
  for (size_t i : {lowest, highest, gap}) {
    if (i != end) kept.push_back(i);
  }
}

}  // namespace

Series thinned(const Series& series, size_t most) {
  HYPERION_CHECK(series.x.size() == series.y.size(), "a series has as many x as y");
  const size_t count = series.y.size();
  if (count <= most) return series;
  const bool gaps = !std::all_of(series.y.begin(), series.y.end(), [](double y) { return std::isfinite(y); });
  const size_t stretches = std::max<size_t>(1, (most - 2) / (gaps ? 3 : 2));
  std::vector<size_t> kept{0, count - 1};
  for (size_t s = 0; s < stretches; ++s)
    keep_extremes(series.y, count * s / stretches, count * (s + 1) / stretches, kept);
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());

  Series out{series.name, {}, {}};
  for (size_t i : kept) {
    out.x.push_back(series.x[i]);
    out.y.push_back(series.y[i]);
  }
  return out;
}

}  // namespace hyperion::report
