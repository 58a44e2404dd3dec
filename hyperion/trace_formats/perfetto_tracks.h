// The tracks of a Perfetto trace: which process and thread, queue or stream of a device, or counter each of them is.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "hyperion/trace/trace.h"

namespace hyperion::trace {

struct PerfettoRow {
  std::string pid, tid;                    // as JSON
  int64_t device = kNone, stream = kNone;  // as the track's name tells them
  std::string counter, unit;               // of a counter: its name, and what it counts; "value" where that is not said
  double scale = 1;
  bool adds_up = false;  // the counter's values are differences
};

class PerfettoTracks {
 public:
  // A TrackDescriptor; one that comes again adds to what was said. ProtobufFault where it is none.
  void read(std::string_view message);

  // Once all descriptors are read. Of a track that nothing was said of: one of its own, named by its number.
  PerfettoRow row(uint64_t uuid);

  struct Name {
    std::string pid, tid, name;  // pid and tid as JSON; tid empty: of the process
  };
  // Of processes and threads that have a number and a name.
  std::vector<Name> names() const;

 private:
  struct Track {
    uint64_t parent = 0;
    std::string name;
    std::optional<int64_t> pid, tid;
    bool is_counter = false, adds_up = false;
    std::string unit;
    double scale = 1;
  };
  void read_process(std::string_view message, Track& track);
  void read_thread(std::string_view message, Track& track);
  void read_counter(std::string_view message, Track& track);
  std::string process_of(const Track* track) const;

  std::unordered_map<uint64_t, Track> tracks_;
  std::map<std::pair<std::string, std::string>, uint64_t> owners_;  // of pids and tids: tracks of one name stay apart
};

}  // namespace hyperion::trace
