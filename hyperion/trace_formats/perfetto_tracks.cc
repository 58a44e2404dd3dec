#include "hyperion/trace_formats/perfetto_tracks.h"

#include <algorithm>
#include <charconv>

#include "hyperion/base/format.h"
#include "hyperion/trace_formats/perfetto_arguments.h"
#include "hyperion/trace_formats/protobuf_reader.h"

namespace hyperion::trace {
namespace {

constexpr int kMostParents = 64;

// A whole number stays one, all else is quoted.
std::string name_as_json(std::string_view name) {
  int64_t number = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), number);
  if (read.ec == std::errc() && read.ptr == name.data() + name.size() && std::to_string(number) == name)
    return std::string(name);
  std::string quoted;
  append_json_text(quoted, name);
  return quoted;
}

char in_capitals(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// "AGENT [4]", "Queue 1": the number right behind a word.
int64_t number_behind(std::string_view name, std::string_view word) {
  std::string capitals(name);
  std::transform(capitals.begin(), capitals.end(), capitals.begin(), in_capitals);
  for (size_t at = capitals.find(word); at != std::string::npos; at = capitals.find(word, at + 1)) {
    const size_t digit = capitals.find_first_not_of(" [", at + word.size());
    int64_t number = kNone;
    if (digit == std::string::npos) continue;
    const auto read = std::from_chars(capitals.data() + digit, capitals.data() + capitals.size(), number);
    if (read.ec == std::errc() && number >= 0) return number;
  }
  return kNone;
}

int64_t first_number_behind(std::string_view name, std::initializer_list<std::string_view> words) {
  for (const auto word : words)
    if (const auto number = number_behind(name, word); number != kNone) return number;
  return kNone;
}

int64_t as_int32(uint64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }

}  // namespace

void PerfettoTracks::read(std::string_view message) {
  uint64_t uuid = 0;
  Track said;
  std::string_view process, thread, counter;
  bool has_process = false, has_thread = false;
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (field.number == 1 && field.is_number()) uuid = field.value;
    if (field.number == 5 && field.is_number()) said.parent = field.value;
    if (!field.is_bytes()) continue;
    if (field.number == 2 || field.number == 10 || field.number == 13) said.name = repaired_utf8(field.bytes);
    if (field.number == 3) process = field.bytes, has_process = true;
    if (field.number == 4) thread = field.bytes, has_thread = true;
    if (field.number == 8) counter = field.bytes, said.is_counter = true;
  }
  if (has_process) read_process(process, said);
  if (has_thread) read_thread(thread, said);
  if (said.is_counter) read_counter(counter, said);
  auto& track = tracks_[uuid];
  if (said.name.empty()) said.name = std::move(track.name);
  if (said.parent == 0) said.parent = track.parent;
  if (!said.pid) said.pid = track.pid, said.tid = track.tid;
  track = std::move(said);
}

void PerfettoTracks::read_process(std::string_view message, Track& track) {
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (field.number == 1 && field.is_number()) track.pid = as_int32(field.value);
    if (field.number == 6 && field.is_bytes() && track.name.empty()) track.name = repaired_utf8(field.bytes);
  }
}

void PerfettoTracks::read_thread(std::string_view message, Track& track) {
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (field.number == 1 && field.is_number()) track.pid = as_int32(field.value);
    if (field.number == 2 && field.is_number()) track.tid = static_cast<int64_t>(field.value);
    if (field.number == 5 && field.is_bytes() && track.name.empty()) track.name = repaired_utf8(field.bytes);
  }
}

void PerfettoTracks::read_counter(std::string_view message, Track& track) {
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (field.number == 3 && field.is_number() && field.value == 3 && track.unit.empty()) track.unit = "bytes";
    if (field.number == 4 && field.is_number() && field.value != 0)
      track.scale = static_cast<double>(static_cast<int64_t>(field.value));
    if (field.number == 5 && field.is_number()) track.adds_up = field.value != 0;
    if (field.number == 6 && field.is_bytes()) track.unit = repaired_utf8(field.bytes);
  }
}

// The number of the nearest process or thread above, or else the name of the outermost track.
std::string PerfettoTracks::process_of(const Track* track) const {
  for (int i = 0; i < kMostParents; ++i) {
    if (track->pid) return std::to_string(*track->pid);
    const auto parent = tracks_.find(track->parent);
    if (track->parent == 0 || parent == tracks_.end()) break;
    track = &parent->second;
  }
  return name_as_json(track->name.empty() ? "unnamed" : track->name);
}

PerfettoRow PerfettoTracks::row(uint64_t uuid) {
  PerfettoRow row;
  const auto found = tracks_.find(uuid);
  if (found == tracks_.end()) {
    row.pid = "0";
    row.tid = name_as_json(base::format("track {}", uuid));
    return row;
  }
  const auto& track = found->second;
  row.pid = process_of(&track);
  if (track.is_counter) {
    row.counter = track.name;
    row.unit = track.unit.empty() ? "value" : track.unit;
    // As our own exporter puts a counter and its number into one name.
    const auto ending = " " + track.unit;
    if (!track.unit.empty() && row.counter.ends_with(ending)) row.counter.resize(row.counter.size() - ending.size());
    row.scale = track.scale;
    row.adds_up = track.adds_up;
    row.tid = row.pid;
    return row;
  }
  if (track.tid || track.pid) {
    row.tid = std::to_string(track.tid ? *track.tid : *track.pid);
    return row;
  }
  row.device = first_number_behind(track.name, {"AGENT", "DEVICE", "GPU", "DISPATCH"});
  row.stream = first_number_behind(track.name, {"STREAM", "QUEUE", "THREAD"});
  auto name = track.name.empty() ? base::format("track {}", uuid) : track.name;
  if (owners_.try_emplace({row.pid, name_as_json(name)}, uuid).first->second != uuid)
    name += base::format(" #{}", uuid);
  row.tid = name_as_json(name);
  return row;
}

std::vector<PerfettoTracks::Name> PerfettoTracks::names() const {
  std::vector<Name> names;
  for (const auto& [uuid, track] : tracks_) {
    if (!track.pid || track.name.empty()) continue;
    names.push_back({std::to_string(*track.pid), track.tid ? std::to_string(*track.tid) : std::string(), track.name});
  }
  std::sort(names.begin(), names.end(), [](const Name& a, const Name& b) {
    return std::tie(a.pid, a.tid, a.name) < std::tie(b.pid, b.tid, b.name);
  });
  return names;
}

}  // namespace hyperion::trace
