// The clocks that Perfetto's packets count their times from, brought to one.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace hyperion::trace {

constexpr int64_t kMostPerfettoTime = (int64_t{1} << 61) - (int64_t{1} << 40);  // nanoseconds; 73 years

// Clocks from 64 to 127 belong to the sequence of packets that told of them, the others to the file. How far two
// clocks are apart is what the last snapshot with both says.
class PerfettoClocks {
 public:
  // A ClockSnapshot. ProtobufFault where it is none.
  void read_snapshot(uint32_t sequence, std::string_view message);

  // Nanoseconds of the clock that the trace counts from (the time since the machine's start, if no snapshot names
  // another); none where nothing was said of the clock, or the time is beyond kMostPerfettoTime. A clock whose times
  // count from the packet before goes on with it. Clock 0: not said.
  std::optional<int64_t> nanoseconds(uint32_t sequence, uint64_t clock, uint64_t value);

 private:
  struct Clock {
    uint64_t unit = 1, last = 0;  // nanoseconds
    bool counts_on = false;
    std::optional<int64_t> behind;  // the trace's clock, by nanoseconds
  };
  using Key = std::pair<uint32_t, uint64_t>;
  static Key key(uint32_t sequence, uint64_t clock) { return {clock >= 64 && clock < 128 ? sequence : 0, clock}; }

  std::map<Key, Clock> clocks_;
  uint64_t primary_ = 6;  // BUILTIN_CLOCK_BOOTTIME
  bool primary_said_ = false;
};

}  // namespace hyperion::trace
