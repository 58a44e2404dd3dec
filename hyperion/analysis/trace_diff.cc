#include "hyperion/analysis/trace_diff.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

namespace hyperion::analysis {
namespace {

// Adds what one side took a step and rank; returns its span.
template <class Add>
double for_each_kernel(const std::vector<RankAnalysis>& ranks, const Add& add) {
  double span = 0;
  for (const auto& rank : ranks) {
    const double parts = static_cast<double>(std::max<int64_t>(rank.steps, 1)) * static_cast<double>(ranks.size());
    span += static_cast<double>(rank.times.total) / 1000 / parts;
    for (const auto& kernel : rank.kernels)
      add(kernel, static_cast<double>(kernel.count) / parts, static_cast<double>(kernel.sum) / 1000 / parts);
  }
  return span;
}

}  // namespace

TraceDiff diff(const std::vector<RankAnalysis>& before, const std::vector<RankAnalysis>& after,
               const DiffOptions& options) {
  TraceDiff result;
  std::map<std::string, DiffRow> rows;
  result.span_before = for_each_kernel(before, [&](const KernelRow& kernel, double count, double time) {
    auto& row = rows[kernel.name];
    row.kind = kernel.kind;
    row.count_before += count, row.before += time, result.before += time;
  });
  result.span_after = for_each_kernel(after, [&](const KernelRow& kernel, double count, double time) {
    auto& row = rows[kernel.name];
    row.kind = kernel.kind;
    row.count_after += count, row.after += time, result.after += time;
  });
  const auto grew = [&](double from, double to) { return to > from * (1 + options.percent / 100); };
  result.regression = grew(result.span_before, result.span_after);
  for (auto& [name, row] : rows) {
    row.name = name;
    row.regression = grew(row.before, row.after) && row.change() * 100 > options.share * result.before;
    result.regression = result.regression || row.regression;
    result.kernels.push_back(std::move(row));
  }
  std::stable_sort(result.kernels.begin(), result.kernels.end(),
                   [](const DiffRow& a, const DiffRow& b) { return std::abs(a.change()) > std::abs(b.change()); });
  return result;
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
                       {"regression", row.regression}});
  return {{"regression", diff.regression},      {"kernels_before_us", diff.before}, {"kernels_after_us", diff.after},
          {"span_before_us", diff.span_before}, {"span_after_us", diff.span_after}, {"kernels", std::move(kernels)}};
}

}  // namespace hyperion::analysis
