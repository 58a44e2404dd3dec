#include "hyperion/analysis/operators.h"

#include <algorithm>
#include <utility>

namespace hyperion::analysis {
namespace {

// Self times of one thread's calls, which are nested by their times; what reaches beyond its caller is cut there.
void add_self_times(const trace::Trace& trace, std::vector<uint32_t>& calls, std::vector<OperatorRow>& sums) {
  const auto outer_first = [&](uint32_t a, uint32_t b) {
    if (trace.begin[a] != trace.begin[b]) return trace.begin[a] < trace.begin[b];
    return trace.duration[a] != trace.duration[b] ? trace.duration[a] > trace.duration[b] : a < b;
  };
  if (!std::is_sorted(calls.begin(), calls.end(), outer_first)) std::sort(calls.begin(), calls.end(), outer_first);
  const auto row_of = [&](uint32_t call) -> OperatorRow& {
    return sums[std::min<size_t>(trace.name[call], sums.size() - 1)];
  };
  std::vector<uint32_t> open;
  for (const uint32_t call : calls) {
    while (!open.empty() && trace.end(open.back()) <= trace.begin[call]) open.pop_back();
    auto& row = row_of(call);
    ++row.count;
    row.self += trace.duration[call];
    row.total += trace.duration[call];
    if (!open.empty())
      row_of(open.back()).self -= std::min(trace.end(call), trace.end(open.back())) - trace.begin[call];
    open.push_back(call);
  }
}

}  // namespace

std::vector<OperatorRow> operator_table(const trace::Trace& trace) {
  const size_t unnamed = trace.names.size();
  std::vector<OperatorRow> sums(unnamed + 1);
  std::vector<std::vector<uint32_t>> threads(trace.tracks.size());  // their calls
  std::vector<uint32_t> by_external;                                // calls again
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace.category(i) != trace::Category::cpu_op || trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime)
      continue;
    threads[trace.track[i]].push_back(static_cast<uint32_t>(i));
    if (trace.external(i) > 0) by_external.push_back(static_cast<uint32_t>(i));
  }
  for (auto& calls : threads) {
    add_self_times(trace, calls, sums);
    std::vector<uint32_t>().swap(calls);
  }
  const auto by_id = [&](uint32_t a, uint32_t b) {
    return trace.external(a) != trace.external(b) ? trace.external(a) < trace.external(b) : a < b;
  };
  if (!std::is_sorted(by_external.begin(), by_external.end(), by_id))
    std::sort(by_external.begin(), by_external.end(), by_id);
  for (size_t i = 0; i < trace.size(); ++i) {
    if (!is_device_work(trace.category(i)) || trace.duration[i] < 0 || trace.external(i) <= 0) continue;
    const auto found = std::lower_bound(by_external.begin(), by_external.end(), trace.external(i),
                                        [&](uint32_t call, int64_t id) { return trace.external(call) < id; });
    if (found == by_external.end() || trace.external(*found) != trace.external(i)) continue;
    sums[std::min<size_t>(trace.name[*found], unnamed)].device += trace.duration[i];
  }
  std::vector<OperatorRow> rows;
  for (size_t id = 0; id < sums.size(); ++id) {
    if (sums[id].count == 0) continue;
    sums[id].name = id < unnamed ? trace.names[static_cast<uint32_t>(id)] : std::string_view();
    rows.push_back(std::move(sums[id]));
  }
  std::sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
    return a.self != b.self ? a.self > b.self : a.name < b.name;
  });
  return rows;
}

}  // namespace hyperion::analysis
