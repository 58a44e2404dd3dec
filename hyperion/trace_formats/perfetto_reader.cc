#include "hyperion/trace_formats/perfetto_reader.h"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/records/open_bytes.h"
#include "hyperion/trace/json_scan.h"
#include "hyperion/trace_formats/perfetto_clocks.h"
#include "hyperion/trace_formats/perfetto_events.h"
#include "hyperion/trace_formats/perfetto_sequence.h"
#include "hyperion/trace_formats/perfetto_tracks.h"
#include "hyperion/trace_formats/protobuf_reader.h"

namespace hyperion::trace {
namespace {

constexpr size_t kMostPacket = size_t{64} << 20;
constexpr size_t kPacketsAtOnce = size_t{256} << 10;  // bytes
constexpr size_t kMostPacketHeader = 11;              // a tag and a length
constexpr size_t kMostSequences = 65536;
constexpr char kPacketTag = 0x0a;

struct TracePacketField {
  enum : int {
    kTrustedUser = 3,
    kClocks = 6,
    kTime = 8,
    kSequence = 10,
    kEvent = 11,
    kInterned = 12,
    kFlags = 13,
    kStateCleared = 41,
    kPacketsLost = 42,
    kPacked = 50,
    kClock = 58,
    kDefaults = 59,
    kTrack = 60
  };
};
constexpr uint64_t kClearsState = 1, kUsesState = 2;  // of kFlags

// The file's packets, one after the other.
class PacketStream {
 public:
  explicit PacketStream(const base::Path& path) : path_(path.string()), stream_(records::open_bytes(path)) {}

  [[noreturn]] void fail(const std::string& what, uint64_t at) const {
    throw base::CorruptError(base::format("{} is no trace that can be read: {}, at byte {}", path_, what, at),
                             "a trace is whole once the profiler has ended: was it copied whole?");
  }
  [[noreturn]] void fail(const ProtobufFault& fault) const {
    const bool within =
        fault.at != nullptr && fault.at >= packet_.data() && fault.at <= packet_.data() + packet_.size();
    fail(fault.what, offset() + (within ? static_cast<uint64_t>(fault.at - packet_.data()) : 0));
  }

  // Lives until the next one is asked for; false at the end.
  bool next(std::string_view& packet) {
    fill(kMostPacketHeader);
    if (left() == 0) return false;
    const uint64_t at = read_ - left();
    if (window_[begin_] != kPacketTag) fail("no packet begins there", at);
    uint64_t length = 0;
    size_t header = 1;
    for (int shift = 0;; shift += 7, ++header) {
      if (header == left()) fail("it ends in the middle of a packet", read_);
      if (shift > 28) fail("a packet is longer than 64 MiB", at);
      const auto byte = static_cast<unsigned char>(window_[begin_ + header]);
      length |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    ++header;
    if (length > kMostPacket) fail("a packet is longer than 64 MiB", at);
    const auto size = static_cast<size_t>(length);
    fill(header + size);
    if (left() < header + size) fail("it ends in the middle of a packet", read_);
    packet = packet_ = std::string_view(window_).substr(begin_ + header, size);
    begin_ += header + size;
    return true;
  }

  uint64_t offset() const { return read_ - left() - packet_.size(); }  // of the packet's first byte
  uint64_t bytes_read() const { return read_ - left(); }

 private:
  size_t left() const { return end_ - begin_; }

  // Memory grows with what the file has, not with what a packet claims.
  void fill(size_t wanted) {
    if (left() >= wanted || ended_) return;
    window_.erase(0, begin_);
    end_ -= begin_;
    begin_ = 0;
    while (end_ < wanted && !ended_) {
      base::throw_if_stopped("reading a trace");
      window_.resize(end_ + kPacketsAtOnce);
      const size_t got = stream_->read(std::span(window_).subspan(end_));
      ended_ = got == 0;
      end_ += got;
      read_ += got;
    }
  }

  const std::string path_;
  std::unique_ptr<records::ByteStream> stream_;
  std::string window_;
  size_t begin_ = 0, end_ = 0;
  uint64_t read_ = 0;
  bool ended_ = false;
  std::string_view packet_;
};

void read_tracks(const base::Path& path, PerfettoTracks& tracks) {
  PacketStream packets(path);
  for (std::string_view packet; packets.next(packet);) {
    try {
      ProtobufReader in(packet);
      for (ProtobufField field; in.next(field);) {
        if (field.number == TracePacketField::kTrack && field.is_bytes()) tracks.read(field.bytes);
        if (field.number == TracePacketField::kPacked)
          packets.fail("its packets are packed one by one, which is not read here", packets.offset());
      }
    } catch (const ProtobufFault& fault) {
      packets.fail(fault);
    }
  }
}

class PacketReader {
 public:
  explicit PacketReader(PerfettoEvents& events) : events_(&events) {}

  // Throws ProtobufFault and ScanFault.
  void read(std::string_view message) {
    events_->count(message.size());
    const auto packet = parse(message);
    auto& sequence = sequence_of(packet.sequence, message);
    if (packet.lost) sequence.known = false;
    if (packet.clears) {
      sequence.clear();
      sequence.known = true;
    }
    if ((packet.flags & kUsesState) != 0 && !sequence.known) {
      if (packet.event.data() != nullptr) events_->skip();
      return;
    }
    if (packet.clocks.data() != nullptr) clocks_.read_snapshot(packet.sequence, packet.clocks);
    if (packet.defaults.data() != nullptr) sequence.read_defaults(packet.defaults);
    if (packet.interned.data() != nullptr) sequence.read_interned(packet.interned, texts_);
    std::optional<int64_t> time;
    if (packet.time)
      time = clocks_.nanoseconds(packet.sequence, packet.clock != 0 ? packet.clock : sequence.clock, *packet.time);
    if (packet.event.data() == nullptr) return;
    if (!packet.time) throw ProtobufFault{"an event has no time", packet.event.data()};
    if (!time) throw ProtobufFault{"an event's time is beyond any clock that it tells of", packet.event.data()};
    events_->add(packet.event, *time, sequence, packet.sequence);
  }

 private:
  struct Packet {
    std::optional<uint64_t> time;
    uint64_t clock = 0, flags = 0;
    uint32_t sequence = 0;
    bool clears = false, lost = false;
    std::string_view event, interned, defaults, clocks;  // no data: not there
  };

  static Packet parse(std::string_view message) {
    Packet packet;
    ProtobufReader in(message);
    for (ProtobufField field; in.next(field);) {
      if (field.is_bytes()) {
        if (field.number == TracePacketField::kEvent) packet.event = field.bytes;
        if (field.number == TracePacketField::kInterned) packet.interned = field.bytes;
        if (field.number == TracePacketField::kDefaults) packet.defaults = field.bytes;
        if (field.number == TracePacketField::kClocks) packet.clocks = field.bytes;
        continue;
      }
      if (field.number == TracePacketField::kTime) packet.time = field.value;
      if (field.number == TracePacketField::kClock) packet.clock = field.value;
      if (field.number == TracePacketField::kSequence) packet.sequence = static_cast<uint32_t>(field.value);
      if (field.number == TracePacketField::kFlags) packet.flags = field.value;
      if (field.number == TracePacketField::kStateCleared) packet.clears = packet.clears || field.value != 0;
      if (field.number == TracePacketField::kPacketsLost) packet.lost = field.value != 0;
    }
    packet.clears = packet.clears || (packet.flags & kClearsState) != 0;
    return packet;
  }

  PerfettoSequence& sequence_of(uint32_t number, std::string_view message) {
    auto& sequence = sequences_[number];
    if (sequences_.size() > kMostSequences) throw ProtobufFault{"it has more than 65536 writers", message.data()};
    return sequence;
  }

  PerfettoEvents* events_;
  PerfettoClocks clocks_;
  StringPool texts_;
  std::unordered_map<uint32_t, PerfettoSequence> sequences_;
};

}  // namespace

bool is_perfetto_file(const base::Path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  try {
    PacketStream packets(path);
    std::string_view packet;
    if (!packets.next(packet)) return false;
    // Text that begins with an empty line begins so too. Every packet of a trace says one of these.
    bool told = false;
    ProtobufReader in(packet);
    for (ProtobufField field; in.next(field);)
      told = told || field.number == TracePacketField::kTrustedUser || field.number == TracePacketField::kTime ||
             field.number == TracePacketField::kSequence || field.number == TracePacketField::kTrack;
    return told;
  } catch (const base::CorruptError&) {
    return false;
  } catch (const base::ConfigError&) {  // packed in a way that this build cannot read
    return false;
  } catch (const base::FileError&) {
    return false;
  } catch (const ProtobufFault&) {
    return false;
  }
}

Trace read_perfetto(const base::Path& path, const std::function<void(uint64_t)>& progress) {
  PerfettoTracks tracks;
  read_tracks(path, tracks);
  PerfettoEvents events(tracks);
  PacketReader reader(events);
  PacketStream packets(path);
  uint64_t told = 0;
  for (std::string_view packet; packets.next(packet);) {
    try {
      reader.read(packet);
    } catch (const ProtobufFault& fault) {
      packets.fail(fault);
    } catch (const ScanFault& fault) {
      packets.fail(base::format("an event's arguments cannot be kept ({})", fault.what), packets.offset());
    }
    if (progress && packets.bytes_read() - told >= kPacketsAtOnce) progress(told = packets.bytes_read());
  }
  if (progress) progress(packets.bytes_read());
  auto trace = std::move(events).finish();
  trace.facts.path = path.string();
  return trace;
}

}  // namespace hyperion::trace
