#include "hyperion/profile/gaps.h"

#include <algorithm>

namespace hyperion::profile {

Gaps gaps_between(const std::vector<TracedSpan>& spans, double threshold_us) {
  constexpr size_t kShown = 10;
  Gaps gaps;
  if (spans.empty()) return gaps;
  std::vector<const TracedSpan*> order;
  for (const auto& span : spans) order.push_back(&span);
  std::sort(order.begin(), order.end(), [](const TracedSpan* a, const TracedSpan* b) { return a->begin < b->begin; });
  const TracedSpan* last = order.front();  // the one that ends last so far
  int64_t idle = 0, idle_long = 0;
  for (const TracedSpan* span : order) {
    if (const int64_t gap = span->begin - last->end; gap > 0) {
      idle += gap, ++gaps.count;
      if (static_cast<double>(gap) > threshold_us * 1e3) {
        idle_long += gap, ++gaps.long_count;
        gaps.longest.push_back({gap, last->name, span->name});
      }
    }
    if (span->end > last->end) last = span;
  }
  const auto longer = [](const Gap& a, const Gap& b) { return a.nanoseconds > b.nanoseconds; };
  const size_t shown = std::min(kShown, gaps.longest.size());
  std::partial_sort(gaps.longest.begin(), gaps.longest.begin() + static_cast<std::ptrdiff_t>(shown), gaps.longest.end(),
                    longer);
  gaps.longest.resize(shown);
  const int64_t window = last->end - order.front()->begin;
  gaps.window_ms = static_cast<double>(window) / 1e6;
  gaps.busy_ms = static_cast<double>(window - idle) / 1e6;
  if (window > 0) {
    gaps.all_percent = 100.0 * static_cast<double>(idle) / static_cast<double>(window);
    gaps.long_percent = 100.0 * static_cast<double>(idle_long) / static_cast<double>(window);
  }
  return gaps;
}

}  // namespace hyperion::profile
