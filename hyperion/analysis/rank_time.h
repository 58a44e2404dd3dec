// A rank's time in parts that add up to all of it, so that ranks can be held beside each other.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "hyperion/analysis/analysis.h"
#include "hyperion/analysis/timeline.h"

namespace hyperion::analysis {

enum class TimePart : uint8_t {
  compute,      // computation ran, and no communication
  overlapped,   // computation and communication
  exposed,      // communication without computation
  memory,       // copies and fills alone
  wait,         // waits that a profiler recorded as work
  input,        // the feed; of hosts alone
  host_wait,    // idle: the next span was launched only after the last had ended
  kernel_wait,  // idle: a short gap
  idle,         // idle for another reason
};
constexpr size_t kTimeParts = 9;
std::string_view part_text(TimePart part);

struct RankTime {
  int64_t rank = 0, steps = 0;                 // steps: 0 where none are marked
  bool on_device = true;                       // false: of the host's first thread
  std::array<int64_t, kTimeParts> times = {};  // nanoseconds, by TimePart
  int64_t at(TimePart part) const { return times[static_cast<size_t>(part)]; }
  int64_t total() const;
  double percent(TimePart part) const;  // 0 where there is no time at all
};
// From the device's first span to its last.
RankTime rank_time(const RankAnalysis& rank);
// Of a rank without a device: from its first thread's first piece to its last.
RankTime rank_time(const Timeline& timeline);

}  // namespace hyperion::analysis
