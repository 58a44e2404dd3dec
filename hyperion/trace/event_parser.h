// Events of Chrome's and Kineto's JSON out of one stretch of the array they stand in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "hyperion/trace/field_packer.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

// What was found in a stretch; it is of no use where the stretch did not begin at an event.
struct ParsedEvents {
  std::vector<Trace::Event> events;
  std::vector<uint32_t> packed_sizes;  // of each event's fields
  std::string packed;                  // these, one after the other
  size_t used = 0;                     // bytes up to the first event that was not whole, or behind the ']'
  bool closed = false;                 // the array ended
  const char* fault = nullptr;         // what is wrong at `fault_at`; none where the text was merely cut
  size_t fault_at = 0;
  void clear();
};

// Where several threads' parsers meet.
struct SharedTrace {
  Trace trace;
  std::mutex tables;  // of types and tracks
};

// One a thread.
class EventParser {
 public:
  explicit EventParser(SharedTrace& shared) : shared_(&shared), packer_(shared.trace.fields) {}

  // kScanPadding bytes behind the text may be read. `first`: the array may end at once.
  void parse(std::string_view text, bool first, ParsedEvents& out);

 private:
  struct Fields;  // of the event that is being read
  void read_event(const char*& at, const char* end, ParsedEvents& out);
  void read_member(Fields& fields, std::string_view key, const char*& at, const char* end);
  bool read_time(int64_t& nanoseconds, const char*& at, const char* end);
  uint32_t name_number(std::string_view name);
  uint16_t type_number(const Fields& fields);
  uint32_t track_number(const Fields& fields);

  SharedTrace* shared_;
  FieldPacker packer_;
  PoolCache names_, types_, tracks_;
  std::string key_;
};

// The first place from `from` on that looks like the beginning of an event; npos where none does. It may be wrong.
size_t guess_event(std::string_view text, size_t from);

}  // namespace hyperion::trace
