#include "hyperion/profile/timing.h"

#include <algorithm>
#include <cmath>

#include "hyperion/base/error.h"
#include "hyperion/base/signals.h"

namespace hyperion::profile {
namespace {

constexpr int64_t kMostCalls = 10000;   // in a block
constexpr size_t kMostRepeats = 10000;  // samples kept of very short work

double run(const Block& block, int64_t calls) {
  base::throw_if_stopped("benchmarking");
  // A timer too coarse for the work may say zero; what is divided by it must stay finite.
  return std::max(block(calls), 1e-9);
}

}  // namespace

double quantile(std::vector<double> values, double fraction) {
  HYPERION_CHECK(!values.empty() && fraction >= 0 && fraction <= 1, "a quantile needs values and a fraction of 0..1");
  std::sort(values.begin(), values.end());
  const double place = fraction * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(place), above = std::min(below + 1, values.size() - 1);
  return values[below] + (place - std::floor(place)) * (values[above] - values[below]);
}

Spread spread_of(const std::vector<double>& samples) {
  return {quantile(samples, 0.5), quantile(samples, 0.1), quantile(samples, 0.9), static_cast<int64_t>(samples.size())};
}

Spread repeat(const Block& block, const Budget& budget) {
  run(block, 1);
  const double single = run(block, 1);
  if (single > budget.seconds) return spread_of({single});

  const int64_t calls = std::clamp<int64_t>(std::llround(budget.block_seconds / single), 1, kMostCalls);
  for (double warm = 0; warm < budget.seconds / 4;) warm += run(block, calls);
  std::vector<double> samples;
  for (double spent = 0; samples.size() < kMostRepeats &&
                         (spent < budget.seconds || static_cast<int64_t>(samples.size()) < budget.at_least);) {
    const double seconds = run(block, calls);
    spent += seconds;
    samples.push_back(seconds / static_cast<double>(calls));
  }
  return spread_of(samples);
}

}  // namespace hyperion::profile
