// Where a device's time went. The words and their meaning are HTA's; docs/traces.md lists where we differ on purpose.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/analysis/device_work.h"

namespace hyperion::analysis {

// Nanoseconds of the time from the first span's begin to the last one's end, over all streams and devices of the rank.
struct TimeBreakdown {
  int64_t idle = 0, compute = 0;  // nothing ran; computation ran, whatever else did
  int64_t non_compute = 0;        // only communication, copies, fills or waits ran
  int64_t total = 0;
  // Exactly which kinds ran: bits 1 computation, 2 communication, 4 memory.
  std::array<int64_t, 8> by_kinds = {};
  int64_t communication = 0, overlapped = 0;      // it ran; it and computation ran
  std::optional<double> overlap_percent() const;  // of communication; none where there was none
};
TimeBreakdown time_breakdown(const DeviceWork& work);

// Between two spans of one stream nothing ran, because ...
struct StreamIdle {
  int64_t stream = trace::kNone;
  int64_t host_wait = 0;    // the later one was launched only after the earlier had ended
  int64_t kernel_wait = 0;  // none of that, and the gap was short: what it costs to begin a kernel
  int64_t other = 0;        // waits for other streams and the like
  int64_t gaps = 0;
  int64_t idle() const { return host_wait + kernel_wait + other; }
};
// By stream. `short_gap`: nanoseconds below which a gap is a kernel_wait.
std::vector<StreamIdle> idle_by_cause(const trace::Trace& trace, const DeviceWork& work, int64_t short_gap = 30'000);
// Likewise of all streams together: when nothing ran on any. It adds up to TimeBreakdown::idle.
StreamIdle device_idle(const DeviceWork& work, int64_t short_gap = 30'000);

// The spans of one name.
struct KernelRow {
  std::string name;
  WorkKind kind = WorkKind::computation;
  int64_t count = 0, sum = 0, longest = 0, shortest = 0;  // nanoseconds
  double mean = 0, deviation = 0;                         // of a sample; 0 of one span
};
// The most time first; of equal ones by name.
std::vector<KernelRow> kernel_table(const trace::Trace& trace, const DeviceWork& work);

}  // namespace hyperion::analysis
