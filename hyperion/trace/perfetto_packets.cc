#include "hyperion/trace/perfetto_packets.h"

#include <charconv>
#include <cstdlib>

#include "hyperion/text/json_text.h"

namespace hyperion::trace {
namespace {

struct PacketField {
  enum : int { kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kInterned = 12, kFlags = 13, kTrack = 60 };
};
struct EventField {
  enum : int {
    kCategories = 3,
    kArguments = 4,
    kType = 9,
    kNameNumber = 10,
    kTrackUuid = 11,
    kCounterValue = 44,
    kFlows = 47,
    kEndingFlows = 48
  };
};
struct ArgumentField {
  enum : int { kNamed = 1, kBool = 2, kInteger = 4, kReal = 5, kJson = 9, kStringNumber = 17 };
};
struct EventKind {
  enum : int { kSliceBegin = 1, kSliceEnd = 2, kInstant = 3, kCounter = 4 };
};
constexpr uint64_t kOnlySequence = 1, kStateCleared = 1, kNeedsState = 2;
constexpr size_t kReadyBytes = size_t{1} << 20;

}  // namespace

uint64_t PerfettoPackets::interned(Interned& texts, std::string_view text) {
  const auto [found, added] = texts.numbers.try_emplace(std::string(text), texts.numbers.size() + 1);
  if (added) {
    ProtobufMessage entry;
    entry.number(1, found->second);
    entry.text(2, text);
    new_texts_.text(texts.field, entry.bytes());
  }
  return found->second;
}

void PerfettoPackets::track(const PerfettoTrack& track) {
  ProtobufMessage descriptor;
  descriptor.number(1, track.uuid);
  if (track.parent != 0) descriptor.number(5, track.parent);
  if (track.pid) {
    ProtobufMessage process;
    process.number(1, static_cast<uint64_t>(*track.pid));
    if (track.tid) process.number(2, static_cast<uint64_t>(*track.tid));
    if (!track.name.empty()) process.text(track.tid ? 5 : 6, track.name);
    descriptor.text(track.tid ? 4 : 3, process.bytes());
  } else {
    descriptor.text(2, track.name);
  }
  if (track.counter) {
    ProtobufMessage counter;
    if (!track.unit.empty()) counter.text(6, track.unit);
    descriptor.text(8, counter.bytes());
  }
  packet_.text(PacketField::kTrack, descriptor.bytes());
  packet(/*with_state=*/false);
}

void PerfettoPackets::add_argument(std::string_view key, std::string_view value) {
  ProtobufMessage argument;
  argument.number(ArgumentField::kNamed, interned(arguments_, key));
  int64_t integer = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, integer);
  if (value == "true" || value == "false")
    argument.number(ArgumentField::kBool, value == "true" ? 1 : 0);
  else if (text::json_is_text(value))
    argument.number(ArgumentField::kStringNumber, interned(strings_, text::json_string(value)));
  else if (read.ec == std::errc() && read.ptr == end)
    argument.number(ArgumentField::kInteger, static_cast<uint64_t>(integer));
  else if (value[0] == '-' || (value[0] >= '0' && value[0] <= '9'))
    argument.real(ArgumentField::kReal, std::strtod(std::string(value).c_str(), nullptr));
  else
    argument.text(ArgumentField::kJson, value);
  event_.text(EventField::kArguments, argument.bytes());
}

void PerfettoPackets::describe(std::string_view category, std::string_view name, std::string_view args) {
  if (!category.empty()) event_.number(EventField::kCategories, interned(categories_, category));
  event_.number(EventField::kNameNumber, interned(names_, name));
  if (args.empty()) return;
  for (const auto& member : text::json_members(args))
    add_argument(text::json_string("\"" + std::string(member.key) + "\""), member.value);
}

void PerfettoPackets::begin_slice(uint64_t track, uint64_t time, std::string_view category, std::string_view name,
                                  std::string_view args, const std::vector<PerfettoFlow>& flows) {
  describe(category, name, args);
  for (const auto& flow : flows) event_.fixed64(flow.ends ? EventField::kEndingFlows : EventField::kFlows, flow.id);
  event_packet(EventKind::kSliceBegin, track, time);
}

void PerfettoPackets::end_slice(uint64_t track, uint64_t time) { event_packet(EventKind::kSliceEnd, track, time); }

void PerfettoPackets::instant(uint64_t track, uint64_t time, std::string_view category, std::string_view name,
                              std::string_view args) {
  describe(category, name, args);
  event_packet(EventKind::kInstant, track, time);
}

void PerfettoPackets::counter(uint64_t track, uint64_t time, std::string_view category, double value) {
  if (!category.empty()) event_.number(EventField::kCategories, interned(categories_, category));
  event_.real(EventField::kCounterValue, value);
  event_packet(EventKind::kCounter, track, time);
}

void PerfettoPackets::event_packet(int type, uint64_t track, uint64_t time) {
  event_.number(EventField::kType, static_cast<uint64_t>(type));
  event_.number(EventField::kTrackUuid, track);
  packet_.number(PacketField::kTimestamp, time);
  packet_.text(PacketField::kTrackEvent, event_.bytes());
  event_.clear();
  packet(/*with_state=*/true);
}

// The first packet says that nothing was interned before it.
void PerfettoPackets::packet(bool with_state) {
  packet_.number(PacketField::kSequence, kOnlySequence);
  if (!new_texts_.empty()) packet_.text(PacketField::kInterned, new_texts_.bytes());
  const uint64_t flags = (begun_ ? 0 : kStateCleared) | (with_state ? kNeedsState : 0);
  if (flags != 0) packet_.number(PacketField::kFlags, flags);
  begun_ = true;
  ProtobufMessage framed;
  framed.text(1, packet_.bytes());
  ready_ += framed.bytes();
  packet_.clear();
  new_texts_.clear();
  if (ready_.size() >= kReadyBytes) flush();
}

void PerfettoPackets::flush() {
  out_->append(ready_);
  ready_.clear();
}

}  // namespace hyperion::trace
