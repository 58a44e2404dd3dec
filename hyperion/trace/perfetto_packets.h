// Perfetto's packets, with the texts that occur again kept once. The numbers of their fields are those of the published
// perfetto_trace.proto.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/base/protobuf_message.h"

namespace hyperion::trace {

using base::ProtobufMessage;

struct PerfettoTrack {
  uint64_t uuid = 0, parent = 0;  // parent 0: none
  std::string name;
  std::optional<int64_t> pid, tid;  // of a process; with tid of a thread of it
  bool counter = false;
  std::string unit = {};  // what a counter counts
};

struct PerfettoFlow {
  uint64_t id = 0;
  bool ends = false;
};

class PerfettoPackets {
 public:
  explicit PerfettoPackets(base::WritableFile& out) : out_(&out) {}

  void track(const PerfettoTrack& track);
  // `args`: an object of JSON, or empty.
  void begin_slice(uint64_t track, uint64_t time, std::string_view category, std::string_view name,
                   std::string_view args, const std::vector<PerfettoFlow>& flows);
  void end_slice(uint64_t track, uint64_t time);
  void instant(uint64_t track, uint64_t time, std::string_view category, std::string_view name, std::string_view args);
  void counter(uint64_t track, uint64_t time, std::string_view category, double value);
  void flush();  // once, last

 private:
  // Texts of one kind.
  struct Interned {
    int field;  // of InternedData
    std::unordered_map<std::string, uint64_t> numbers;
  };
  uint64_t interned(Interned& texts, std::string_view text);
  void describe(std::string_view category, std::string_view name, std::string_view args);
  void add_argument(std::string_view key, std::string_view value);
  void event_packet(int type, uint64_t track, uint64_t time);
  void packet(bool with_state);

  base::WritableFile* out_;
  std::string ready_;
  ProtobufMessage packet_, event_, new_texts_;
  Interned categories_{1, {}}, names_{2, {}}, arguments_{3, {}}, strings_{29, {}};
  bool begun_ = false;
};

}  // namespace hyperion::trace
