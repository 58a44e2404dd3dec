// What one process did, as a profiler recorded it: events in columns. Made by readers (read_trace.h, or with
// trace_builder.h), and only looked at afterwards.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyperion/trace/column.h"
#include "hyperion/trace/packed_fields.h"
#include "hyperion/trace/string_pool.h"

namespace hyperion::trace {

constexpr int64_t kNone = -1;           // of a duration, a correlation, an external id, a device, a stream: not said
constexpr int64_t kNoTime = INT64_MIN;  // of a begin

// What an event is, from its phase and its category as Kineto and older PyTorch write it. Words: category_text().
enum class Category : uint8_t {
  cpu_op,               // an operator on the host
  user_annotation,      // record_function, ProfilerStep
  gpu_user_annotation,  // the same, over the kernels it launched
  kernel,
  gpu_memcpy,
  gpu_memset,
  runtime,          // a call of CUDA's or HIP's runtime: launches, waits
  driver,           // of CUDA's driver
  synchronization,  // cuda_sync: what a stream or the host waited for
  python_function,
  overhead,
  instant,   // a point in time (phase i)
  flow,      // an arrow's end: ac2g, fwdbwd (phases s, t, f)
  counter,   // a value in time (phase C)
  metadata,  // names of processes and threads (phase M)
  other,
};
std::string_view category_text(Category category);
// Of an event of this phase and category.
Category category_of(char phase, std::string_view category);

// Runs on the device: a kernel, a copy, a fill.
constexpr bool is_device_work(Category category) {
  return category == Category::kernel || category == Category::gpu_memcpy || category == Category::gpu_memset;
}

struct EventType {
  char phase = 0;                      // 'X', 'i', ...; 0: none said
  uint32_t category_name = kNoString;  // in Trace::names
  Category category = Category::other;
};

// Where an event happened. pid and tid as they stand in JSON: '7', '"Spans"', empty where not said.
struct Track {
  std::string pid, tid;
  int64_t device = kNone, stream = kNone;  // of its arguments
};

struct Member {
  std::string key, value;  // the key as text, the value as JSON
};

// All that a trace says beside its events.
struct FileFacts {
  std::string path;
  bool bare = false;            // the events alone: [...]
  std::vector<Member> members;  // of the outermost object, in its order, without "traceEvents"; lossless
  // What of them is used.
  std::optional<int64_t> rank, world_size;
  std::string backend;       // "nccl"
  int64_t base_time_ns = 0;  // what begins count from, since 1970
  std::optional<int64_t> schema_version;
};

// Of the event with number i, i < size(), in the order of the file. About 40 bytes an event and its packed fields.
class Trace {
 public:
  FileFacts facts;
  StringPool names;  // of events and categories
  std::vector<EventType> types;
  std::vector<Track> tracks;

  Column<uint32_t> name;            // in names
  Column<uint16_t> type;            // in types
  Column<uint32_t> track;           // in tracks
  Column<int64_t> begin, duration;  // nanoseconds; the file's microseconds have at most three decimals
  PackedFields fields;              // all else of the event: "args", "id", "bp", "s", ...

  Trace() = default;
  Trace(Trace&&) = default;
  Trace& operator=(Trace&&) = default;

  size_t size() const { return name.size(); }
  Category category(size_t i) const { return types[type[i]].category; }
  std::string_view name_text(size_t i) const { return names[name[i]]; }
  int64_t end(size_t i) const { return begin[i] + (duration[i] > 0 ? duration[i] : 0); }
  int64_t device(size_t i) const { return tracks[track[i]].device; }
  int64_t stream(size_t i) const { return tracks[track[i]].stream; }
  // What a launch and its kernel share ("correlation"); of flows their "id".
  int64_t correlation(size_t i) const { return wide(correlation_, wide_correlations_, i); }
  // What an operator, its launches and their kernels share ("External id").
  int64_t external(size_t i) const { return wide(external_, wide_externals_, i); }

  // The arguments as JSON, '{"stream": 7}'; empty where there are none. Not quick.
  std::string args(size_t i) const;
  // One of them as JSON; empty where it is not there.
  std::string arg(size_t i, std::string_view key) const;
  int64_t integer_arg(size_t i, std::string_view key, int64_t otherwise = kNone) const;

  size_t bytes() const;  // of memory

  struct Event {
    uint32_t name = kNoString;
    uint16_t type = 0;
    uint32_t track = 0;
    int64_t begin = kNoTime, duration = kNone, correlation = kNone, external = kNone;
  };
  void append(const Event& event, std::string_view packed_fields);
  // Numbers of equal ones are equal. Throws base::Error where there are more than 65535 types.
  uint16_t add_type(char phase, std::string_view category);  // phase 0, category data() null: not said
  uint32_t add_track(const Track& track);

 private:
  // Most fit into 32 bits; what does not is looked up.
  using Wide = std::unordered_map<size_t, int64_t>;
  static constexpr uint32_t kWide = UINT32_MAX;
  static int64_t wide(const Column<uint32_t>& column, const Wide& wide, size_t i) {
    if (column[i] != kWide) return column[i];
    const auto found = wide.find(i);
    return found == wide.end() ? kNone : found->second;
  }
  static void push(Column<uint32_t>& column, Wide& wide, int64_t value);

  Column<uint32_t> correlation_, external_;
  Wide wide_correlations_, wide_externals_;
  std::unordered_map<std::string, uint32_t> track_numbers_;
};

// Takes rank, world size and the like out of facts.members. What has another form than Kineto's is left out.
void read_facts(FileFacts& facts);

}  // namespace hyperion::trace
