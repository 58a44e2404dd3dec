#include "hyperion/analysis/breakdown.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "hyperion/analysis/intervals.h"

namespace hyperion::analysis {
namespace {

// Spans in the order of their begins.
struct GapCounter {
  StreamIdle idle;
  int64_t end = trace::kNoTime;  // of all before

  void add(const DeviceSpan& span, int64_t short_gap) {
    if (end != trace::kNoTime && span.begin > end) {
      const int64_t gap = span.begin - end;
      const bool late = span.launched != trace::kNoTime && span.launched > end;
      (late ? idle.host_wait : gap < short_gap ? idle.kernel_wait : idle.other) += gap;
      ++idle.gaps;
    }
    end = std::max(end, span.end);
  }
};

}  // namespace

std::optional<double> TimeBreakdown::overlap_percent() const {
  if (communication == 0) return std::nullopt;
  return 100.0 * static_cast<double>(overlapped) / static_cast<double>(communication);
}

TimeBreakdown time_breakdown(const DeviceWork& work) {
  TimeBreakdown times;
  if (work.spans.empty()) return times;
  std::array<Intervals, 3> unions;
  Intervals all;
  for (const auto& span : work.spans) {
    add_interval(all, {span.begin, span.end});
    if (span.kind != WorkKind::other) add_interval(unions[static_cast<size_t>(span.kind)], {span.begin, span.end});
  }
  times.total = all.back().end - all.front().begin;
  times.idle = times.total - length_of(all);
  times.by_kinds = time_by_mask(unions);
  const auto& by = times.by_kinds;
  times.compute = by[1] + by[3] + by[5] + by[7];
  times.non_compute = times.total - times.idle - times.compute;
  times.communication = by[2] + by[3] + by[6] + by[7];
  times.overlapped = by[3] + by[7];
  return times;
}

std::vector<StreamIdle> idle_by_cause(const trace::Trace& trace, const DeviceWork& work, int64_t short_gap) {
  std::map<int64_t, GapCounter> streams;
  for (const auto& span : work.spans) {
    const int64_t number = trace.stream(span.event);
    auto& stream = streams[number];
    stream.idle.stream = number;
    stream.add(span, short_gap);
  }
  std::vector<StreamIdle> rows;
  for (const auto& [number, stream] : streams) rows.push_back(stream.idle);
  return rows;
}

StreamIdle device_idle(const DeviceWork& work, int64_t short_gap) {
  GapCounter all;
  for (const auto& span : work.spans) all.add(span, short_gap);
  return all.idle;
}

std::vector<KernelRow> kernel_table(const trace::Trace& trace, const DeviceWork& work) {
  struct Sum {
    int64_t count = 0, sum = 0, longest = 0, shortest = INT64_MAX;
    double squares = 0;
    WorkKind kind = WorkKind::computation;
  };
  std::vector<Sum> sums(trace.names.size() + 1);  // the last: without a name
  const auto of = [&](const DeviceSpan& span) -> Sum& {
    return sums[std::min<size_t>(trace.name[span.event], sums.size() - 1)];
  };
  for (const auto& span : work.spans) {
    auto& sum = of(span);
    const int64_t length = span.end - span.begin;
    ++sum.count;
    sum.sum += length;
    sum.longest = std::max(sum.longest, length);
    sum.shortest = std::min(sum.shortest, length);
    sum.kind = span.kind;
  }
  for (const auto& span : work.spans) {
    auto& sum = of(span);
    const double off =
        static_cast<double>(span.end - span.begin) - static_cast<double>(sum.sum) / static_cast<double>(sum.count);
    sum.squares += off * off;
  }
  std::vector<KernelRow> rows;
  for (size_t id = 0; id < sums.size(); ++id) {
    const auto& sum = sums[id];
    if (sum.count == 0) continue;
    rows.push_back({id < trace.names.size() ? std::string(trace.names[static_cast<uint32_t>(id)]) : "", sum.kind,
                    sum.count, sum.sum, sum.longest, sum.shortest,
                    static_cast<double>(sum.sum) / static_cast<double>(sum.count),
                    sum.count > 1 ? std::sqrt(sum.squares / static_cast<double>(sum.count - 1)) : 0});
  }
  std::sort(rows.begin(), rows.end(),
            [](const KernelRow& a, const KernelRow& b) { return a.sum != b.sum ? a.sum > b.sum : a.name < b.name; });
  return rows;
}

}  // namespace hyperion::analysis
