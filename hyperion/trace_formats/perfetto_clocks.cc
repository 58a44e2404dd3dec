#include "hyperion/trace_formats/perfetto_clocks.h"

#include <vector>

#include "hyperion/trace_formats/protobuf_reader.h"

namespace hyperion::trace {
namespace {

struct ClockReading {
  uint64_t clock = 0, value = 0, unit = 1;
  bool counts_on = false;
};

ClockReading read_clock(std::string_view message) {
  ClockReading reading;
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (!field.is_number()) continue;
    if (field.number == 1) reading.clock = field.value;
    if (field.number == 2) reading.value = field.value;
    if (field.number == 3) reading.counts_on = field.value != 0;
    if (field.number == 4 && field.value != 0) reading.unit = field.value;
  }
  return reading;
}

// None beyond any clock.
std::optional<int64_t> in_nanoseconds(uint64_t value, uint64_t unit) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(value, unit, &product) || product > static_cast<uint64_t>(kMostPerfettoTime)) return {};
  return static_cast<int64_t>(product);
}

}  // namespace

void PerfettoClocks::read_snapshot(uint32_t sequence, std::string_view message) {
  std::vector<ClockReading> readings;
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (field.number == 1 && field.is_bytes()) readings.push_back(read_clock(field.bytes));
    if (field.number == 2 && field.is_number() && field.value != 0 && !primary_said_) {
      primary_ = field.value;
      primary_said_ = true;
    }
  }
  // What the trace's clock shows: said, or told by another clock of the snapshot.
  std::optional<int64_t> now;
  for (const auto& reading : readings)
    if (reading.clock == primary_) now = in_nanoseconds(reading.value, reading.unit);
  for (const auto& reading : readings) {
    if (now) break;
    const auto known = clocks_.find(key(sequence, reading.clock));
    const auto time = in_nanoseconds(reading.value, reading.unit);
    if (known != clocks_.end() && known->second.behind && time) now = *time + *known->second.behind;
    if (now && (*now < 0 || *now > kMostPerfettoTime)) now.reset();
  }
  for (const auto& reading : readings) {
    const auto time = in_nanoseconds(reading.value, reading.unit);
    if (!time) continue;
    auto& clock = clocks_[key(sequence, reading.clock)];
    clock.unit = reading.unit;
    clock.counts_on = reading.counts_on;
    clock.last = static_cast<uint64_t>(*time);
    if (reading.clock == primary_) clock.behind = 0;
    if (now) clock.behind = *now - *time;
  }
}

std::optional<int64_t> PerfettoClocks::nanoseconds(uint32_t sequence, uint64_t number, uint64_t value) {
  if (number == 0) number = primary_;
  const auto found = clocks_.find(key(sequence, number));
  if (found == clocks_.end()) return number == primary_ ? in_nanoseconds(value, 1) : std::nullopt;
  auto& clock = found->second;
  auto time = in_nanoseconds(value, clock.unit);
  if (!time) return {};
  if (clock.counts_on) {
    *time += static_cast<int64_t>(clock.last);
    if (*time > kMostPerfettoTime) return {};
    clock.last = static_cast<uint64_t>(*time);
  }
  if (!clock.behind) return {};
  *time += *clock.behind;
  return *time >= 0 && *time <= kMostPerfettoTime ? time : std::nullopt;
}

}  // namespace hyperion::trace
