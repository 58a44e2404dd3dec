// One of Perfetto's events, with the texts that it refers to.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hyperion/trace_formats/perfetto_sequence.h"

namespace hyperion::trace {

struct TrackEvent {
  enum Type : uint64_t { kBegins = 1, kEnds = 2, kInstant = 3, kCounts = 4 };

  uint64_t type = 0;  // or another one
  std::optional<uint64_t> track;
  std::string name, category;                    // categories with commas between them
  std::vector<std::string_view> annotations;     // perfetto_arguments.h; within the message
  double value = 0;                              // of a counter
  std::vector<std::pair<uint64_t, bool>> flows;  // and whether they end here
};

// Throws ProtobufFault where it is none.
TrackEvent read_track_event(std::string_view message, const PerfettoSequence& sequence);

}  // namespace hyperion::trace
