#include "hyperion/trace/operators.h"

#include <algorithm>
#include <utility>

namespace hyperion::trace {
namespace {

struct Call {
  int64_t begin, end;
  uint32_t name;
};

// Self times of one thread's calls, which are nested by their times; what reaches beyond its caller is cut there.
void add_self_times(std::vector<Call>& calls, std::vector<OperatorRow>& sums) {
  const auto outer_first = [](const Call& a, const Call& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  };
  if (!std::is_sorted(calls.begin(), calls.end(), outer_first))
    std::stable_sort(calls.begin(), calls.end(), outer_first);
  std::vector<const Call*> open;
  for (const auto& call : calls) {
    while (!open.empty() && open.back()->end <= call.begin) open.pop_back();
    auto& row = sums[call.name];
    ++row.count;
    row.self += call.end - call.begin;
    row.total += call.end - call.begin;
    if (!open.empty()) sums[open.back()->name].self -= std::min(call.end, open.back()->end) - call.begin;
    open.push_back(&call);
  }
}

}  // namespace

std::vector<OperatorRow> operator_table(const Trace& trace) {
  const size_t unnamed = trace.names.size();
  std::vector<OperatorRow> sums(unnamed + 1);
  std::vector<std::vector<Call>> threads(trace.tracks.size());
  std::vector<std::pair<int64_t, uint32_t>> by_external;  // an operator's external id and its name
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace.category(i) != Category::cpu_op || trace.duration[i] < 0 || trace.begin[i] == kNoTime) continue;
    const auto name = static_cast<uint32_t>(std::min<size_t>(trace.name[i], unnamed));
    threads[trace.track[i]].push_back({trace.begin[i], trace.end(i), name});
    if (trace.external(i) > 0) by_external.emplace_back(trace.external(i), name);
  }
  for (auto& calls : threads) {
    add_self_times(calls, sums);
    std::vector<Call>().swap(calls);
  }
  if (!std::is_sorted(by_external.begin(), by_external.end())) std::sort(by_external.begin(), by_external.end());
  for (size_t i = 0; i < trace.size(); ++i) {
    if (!is_device_work(trace.category(i)) || trace.duration[i] < 0 || trace.external(i) <= 0) continue;
    const auto found =
        std::lower_bound(by_external.begin(), by_external.end(), std::pair(trace.external(i), uint32_t{0}));
    if (found != by_external.end() && found->first == trace.external(i))
      sums[found->second].device += trace.duration[i];
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

}  // namespace hyperion::trace
