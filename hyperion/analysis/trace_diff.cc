#include "hyperion/analysis/trace_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/format.h"

namespace hyperion::analysis {
namespace {

// Adds what one side took a step and rank; returns its span.
template <class Add>
double for_each_kernel(const std::vector<RankAnalysis>& ranks, const Add& add) {
  double span = 0;
  for (const auto& rank : ranks) {
    const double parts = static_cast<double>(std::max<int64_t>(rank.steps, 1)) * static_cast<double>(ranks.size());
    span += static_cast<double>(rank.times.total) / 1000 / parts;
    for (const auto& kernel : rank.kernels) {
      const double noise = kernel.deviation * std::sqrt(static_cast<double>(kernel.count)) / 1000 / parts;
      add(kernel, static_cast<double>(kernel.count) / parts, static_cast<double>(kernel.sum) / 1000 / parts, noise);
    }
  }
  return span;
}

struct Ratio {
  double ratio = 1, weight = 0;  // after by before, of a call; the time before
};

double weighted_median(std::vector<Ratio>& ratios) {
  std::sort(ratios.begin(), ratios.end(), [](const Ratio& a, const Ratio& b) { return a.ratio < b.ratio; });
  double all = 0, below = 0;
  for (const auto& each : ratios) all += each.weight;
  for (const auto& each : ratios)
    if ((below += each.weight) >= all / 2) return each.ratio;
  return 1;
}

// 1 unless several kernels, which are most of the time, agree on another.
double common_pace(const std::map<std::string, DiffRow>& rows) {
  constexpr int kFewest = 5;
  constexpr double kLeast = 0.005, kNear = 0.01;
  std::vector<Ratio> ratios;
  for (const auto& [name, row] : rows)
    if (row.kind == WorkKind::computation && row.before > 0 && row.after > 0)
      ratios.push_back({row.after / row.count_after * row.count_before / row.before, row.before});
  const double pace = weighted_median(ratios);
  if (std::abs(pace - 1) < kLeast) return 1;
  int agreeing = 0;
  double weight = 0, all = 0;
  for (const auto& each : ratios) {
    all += each.weight;
    if (std::abs(each.ratio / pace - 1) > std::max(kNear, std::abs(pace - 1) / 4)) continue;
    ++agreeing;
    weight += each.weight;
  }
  return agreeing >= kFewest && weight > all / 2 ? pace : 1;
}

}  // namespace

TraceDiff diff(const std::vector<RankAnalysis>& before, const std::vector<RankAnalysis>& after,
               const DiffOptions& options) {
  TraceDiff result;
  std::map<std::string, DiffRow> rows;
  result.span_before = for_each_kernel(before, [&](const KernelRow& kernel, double count, double time, double noise) {
    auto& row = rows[kernel.name];
    row.kind = kernel.kind;
    row.noise = std::hypot(row.noise, noise);
    row.count_before += count, row.before += time, result.before += time;
  });
  result.span_after = for_each_kernel(after, [&](const KernelRow& kernel, double count, double time, double noise) {
    auto& row = rows[kernel.name];
    row.kind = kernel.kind;
    row.noise = std::hypot(row.noise, noise);
    row.count_after += count, row.after += time, result.after += time;
  });
  result.pace = common_pace(rows);
  const auto grew = [&](double from, double to) { return to > from * (1 + options.percent / 100); };
  result.regression = grew(result.span_before * result.pace, result.span_after);
  for (auto& [name, row] : rows) {
    row.name = name;
    row.expected = row.kind == WorkKind::computation ? row.before * result.pace : row.before;
    row.regression = grew(row.expected, row.after) && row.excess() * 100 > options.share * result.before;
    result.regression = result.regression || row.regression;
    result.kernels.push_back(std::move(row));
  }
  const auto beyond_noise = [](const DiffRow& row) { return std::max(0.0, std::abs(row.excess()) - 2 * row.noise); };
  std::stable_sort(result.kernels.begin(), result.kernels.end(), [&](const DiffRow& a, const DiffRow& b) {
    const double first = beyond_noise(a), second = beyond_noise(b);
    return first != second ? first > second : std::abs(a.excess()) > std::abs(b.excess());
  });
  return result;
}

std::string pace_text(double pace) {
  if (pace == 1) return {};
  return base::format(
      "all kernels of computation take {:.1f}% {}: another clock or power limit, or another device; each is judged "
      "against that",
      100 * std::abs(pace - 1), pace > 1 ? "longer" : "less");
}

base::Json diff_json(const TraceDiff& diff) {
  base::Json kernels = base::Json::array();
  for (const auto& row : diff.kernels)
    kernels.push_back({{"name", row.name},
                       {"kind", kind_text(row.kind)},
                       {"count_before", row.count_before},
                       {"count_after", row.count_after},
                       {"before_us", row.before},
                       {"after_us", row.after},
                       {"expected_us", row.expected},
                       {"noise_us", row.noise},
                       {"regression", row.regression}});
  return {{"regression", diff.regression},      {"pace", diff.pace},
          {"kernels_before_us", diff.before},   {"kernels_after_us", diff.after},
          {"span_before_us", diff.span_before}, {"span_after_us", diff.span_after},
          {"kernels", std::move(kernels)}};
}

}  // namespace hyperion::analysis
