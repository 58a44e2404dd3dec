// Makes a trace of Perfetto's TrackEvents.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyperion/trace/field_packer.h"
#include "hyperion/trace/trace.h"
#include "hyperion/trace_formats/perfetto_sequence.h"
#include "hyperion/trace_formats/perfetto_tracks.h"
#include "hyperion/trace_formats/track_event.h"

namespace hyperion::trace {

// Begin and end become one event of phase X where the slice begins, an instant one of phase i, a counter's value one of
// phase C; slices that share a flow get arrows (s, t, f), last. AMD's categories become Kineto's, and its correlation,
// device and stream arguments that are named so.
class PerfettoEvents {
 public:
  // Once all descriptors are in `tracks`, which must outlive this.
  explicit PerfettoEvents(PerfettoTracks& tracks);
  PerfettoEvents(const PerfettoEvents&) = delete;
  PerfettoEvents& operator=(const PerfettoEvents&) = delete;

  // A TrackEvent; `time` in nanoseconds. Throws ProtobufFault where it is none, ScanFault where its arguments are not
  // such as a trace can keep.
  void add(std::string_view message, int64_t time, const PerfettoSequence& sequence, uint32_t sequence_number);
  void count(size_t bytes) { read_ += bytes; }  // of packets, before what is in them
  void skip() { ++lost_; }                      // an event that refers to what was lost
  Trace finish() &&;

 private:
  struct Open {
    uint64_t event = 0;
    uint32_t sequence = 0;
  };
  struct Row {
    PerfettoRow is;
    std::vector<Open> open;
    double sum = 0;                          // of a counter whose values are differences
    uint32_t track = kNoString;              // the one that was taken last, in Trace::tracks,
    int64_t device = kNone, stream = kNone;  // and what it is of
  };
  struct ArrowEnd {
    uint64_t flow = 0;
    int64_t time = 0;
    uint32_t track = 0;
    bool last = false, on_device = false;
  };

  Row& row_of(uint64_t uuid);
  void check_sizes(std::string_view message, const TrackEvent& event);
  void add_names();
  void add_slice(TrackEvent& event, int64_t time, const PerfettoSequence& sequence, Row& row, bool lasts);
  void end_slice(Row& row, int64_t time, uint32_t sequence);
  void add_value(const TrackEvent& event, int64_t time, Row& row);
  void add_kineto_arguments(const TrackEvent& event, const Row& row, bool on_device);
  void append(char phase, std::string_view category, std::string_view name, Row& row, int64_t time, int64_t duration);
  uint16_t type_of(char phase, std::string_view category);
  void close_rest();
  void add_arrows();
  void add_facts();

  PerfettoTracks& tracks_;
  Trace trace_;
  FieldPacker packer_;
  std::unordered_map<uint64_t, Row> rows_;
  std::unordered_map<std::string, uint16_t> types_;
  std::vector<ArrowEnd> arrow_ends_;
  std::string args_;  // of the event that is added, as members of JSON
  std::string key_;
  uint64_t read_ = 0, unpacked_ = 0;  // bytes of packets, and of the texts that they became
  int64_t first_ = INT64_MAX, last_ = 0;
  int64_t unclosed_ = 0, unopened_ = 0, lost_ = 0, other_ = 0;
};

}  // namespace hyperion::trace
