#include "hyperion/analysis/memory_timeline.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

// Every event tells how much is allocated with it, so that the timeline needs no sums of ours. Blocks are told apart by
// their address: freed ones that were never allocated here come out of what was held before.
namespace hyperion::analysis {
namespace {

constexpr std::string_view kMemory = "[memory]";

struct Change {
  int64_t time, bytes, address, allocated, reserved;
  uint32_t track;
};

// What any operation may call for its results: that one is meant.
bool only_allocates(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty") || name == "aten::resize_";
}

// The events that enclose a moment on a thread, of those that are looked at in the order of time.
class Enclosing {
 public:
  explicit Enclosing(std::vector<uint32_t> events) : events_(std::move(events)) {}

  // The innermost that does more than allocate, or none: kNoString. `time` never goes back.
  uint32_t at(const trace::Trace& trace, int64_t time) {
    for (; next_ < events_.size() && trace.begin[events_[next_]] <= time; ++next_) open_.push_back(events_[next_]);
    while (!open_.empty() && trace.end(open_.back()) < time) open_.pop_back();
    if (open_.empty()) return trace::kNoString;
    const auto named = std::find_if(open_.rbegin(), open_.rend(),
                                    [&](uint32_t event) { return !only_allocates(trace.name_text(event)); });
    return named == open_.rend() ? open_.back() : *named;
  }

 private:
  std::vector<uint32_t> events_, open_;
  size_t next_ = 0;
};

// Phases and blocks are spans of the program's own, on threads that it numbers by itself: told by time alone.
struct Places {
  std::map<uint32_t, Enclosing> calls;  // by track
  Enclosing phases{{}}, blocks{{}};
};

bool is_phase(std::string_view name) {
  return name == "forward" || name == "backward" || name == "update" || name == "data";
}
bool is_block(std::string_view name) { return name.starts_with("block ") || name.starts_with("recompute "); }

void by_begin(const trace::Trace& trace, std::vector<uint32_t>& events) {
  std::sort(events.begin(), events.end(), [&](uint32_t a, uint32_t b) {
    if (trace.begin[a] != trace.begin[b]) return trace.begin[a] < trace.begin[b];
    return trace.duration[a] != trace.duration[b] ? trace.duration[a] > trace.duration[b] : a < b;
  });
}

Places places_in(const trace::Trace& trace) {
  std::map<uint32_t, std::vector<uint32_t>> calls;
  std::vector<uint32_t> phases, blocks;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace.duration[i] < 0 || trace.begin[i] == trace::kNoTime || trace.name[i] == trace::kNoString) continue;
    const auto event = static_cast<uint32_t>(i);
    if (trace.category(i) == trace::Category::cpu_op) calls[trace.track[i]].push_back(event);
    if (trace.category(i) != trace::Category::user_annotation) continue;
    if (is_phase(trace.name_text(i))) phases.push_back(event);
    if (is_block(trace.name_text(i))) blocks.push_back(event);
  }
  Places places;
  for (auto& [track, events] : calls) {
    by_begin(trace, events);
    places.calls.emplace(track, Enclosing(std::move(events)));
  }
  by_begin(trace, phases), by_begin(trace, blocks);
  places.phases = Enclosing(std::move(phases)), places.blocks = Enclosing(std::move(blocks));
  return places;
}

std::string place_of(const trace::Trace& trace, Places& places, const Change& change) {
  std::string text;
  const auto add = [&](uint32_t event) {
    if (event != trace::kNoString) text += base::format("{}{}", text.empty() ? "" : ", ", trace.name_text(event));
  };
  add(places.phases.at(trace, change.time));
  add(places.blocks.at(trace, change.time));
  const auto calls = places.calls.find(change.track);
  if (calls != places.calls.end()) add(calls->second.at(trace, change.time));
  return text.empty() ? "elsewhere" : text;
}

using Device = std::pair<bool, int64_t>;

std::map<Device, std::vector<Change>> changes_in(const trace::Trace& trace) {
  std::map<Device, std::vector<Change>> devices;
  for (size_t i = 0; i < trace.size(); ++i) {
    if (trace.name[i] == trace::kNoString || trace.begin[i] == trace::kNoTime) continue;
    if (trace.name_text(i) != kMemory || trace.category(i) != trace::Category::instant) continue;
    const Change change{trace.begin[i],
                        trace.integer_arg(i, "Bytes", 0),
                        trace.integer_arg(i, "Addr", 0),
                        trace.integer_arg(i, "Total Allocated", -1),
                        trace.integer_arg(i, "Total Reserved", 0),
                        trace.track[i]};
    if (change.allocated < 0)
      throw base::CorruptError(base::format("{}: event {} does not say how much is allocated", trace.facts.path, i),
                               "record it anew with profile_memory");
    const bool gpu = trace.integer_arg(i, "Device Type", 0) != 0;  // c10::DeviceType::CPU is 0
    devices[{gpu, gpu ? trace.integer_arg(i, "Device Id", 0) : trace::kNone}].push_back(change);
  }
  for (auto& [device, changes] : devices)
    std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.time < b.time; });
  return devices;
}

std::vector<MemoryPoint> points_of(const std::vector<Change>& changes) {
  const int64_t first = changes.front().time, span = std::max<int64_t>(changes.back().time - first, 1);
  std::vector<MemoryPoint> points;
  size_t stretch = kMostPoints;
  for (const auto& change : changes) {
    const auto in = static_cast<size_t>(static_cast<double>(change.time - first) / static_cast<double>(span) *
                                        static_cast<double>(kMostPoints - 1));
    if (points.empty() || in != stretch) points.push_back({change.time - first, change.allocated});
    stretch = in;
    if (change.allocated > points.back().bytes) points.back() = {change.time - first, change.allocated};
  }
  return points;
}

MemoryTimeline timeline_of(const trace::Trace& trace, const Device& device, const std::vector<Change>& changes) {
  MemoryTimeline line;
  line.gpu = device.first, line.device = device.second;
  line.held_before = changes.front().allocated - changes.front().bytes;
  line.held_after = changes.back().allocated;
  line.points = points_of(changes);
  size_t at = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    line.allocations += changes[i].bytes > 0;
    line.peak_reserved = std::max(line.peak_reserved, changes[i].reserved);
    if (changes[i].allocated > changes[at].allocated) at = i;
  }
  line.peak = std::max(changes[at].allocated, line.held_before);
  line.peak_time = changes[at].time - changes.front().time;
  if (line.peak > changes[at].allocated) at = changes.size();  // it was held before the first change
  const size_t until = at < changes.size() ? at + 1 : 0;
  std::unordered_map<int64_t, size_t> alive;  // at the peak, by address: the change that made it
  for (size_t i = 0; i < until; ++i)
    if (changes[i].bytes > 0)
      alive[changes[i].address] = i;
    else
      alive.erase(changes[i].address);
  std::map<std::string, MemoryHolder> holders;
  auto places = places_in(trace);
  for (size_t i = 0; i < until; ++i) {
    const auto place = place_of(trace, places, changes[i]);
    if (i == at) line.peak_place = place;
    const auto held = alive.find(changes[i].address);
    if (held == alive.end() || held->second != i) continue;
    auto& holder = holders[place];
    holder.bytes += changes[i].bytes, ++holder.blocks;
  }
  int64_t told = 0;
  for (auto& [name, holder] : holders) {
    holder.name = name, told += holder.bytes;
    line.holders.push_back(std::move(holder));
  }
  if (line.peak != told) line.holders.push_back({kHeldBefore, line.peak - told, 0});
  std::sort(line.holders.begin(), line.holders.end(), [](const MemoryHolder& a, const MemoryHolder& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.name < b.name;
  });
  return line;
}

}  // namespace

std::vector<MemoryTimeline> memory_timelines(const trace::Trace& trace) {
  std::vector<MemoryTimeline> lines;
  for (const auto& [device, changes] : changes_in(trace)) lines.push_back(timeline_of(trace, device, changes));
  return lines;
}

base::Json memory_json(const std::vector<MemoryTimeline>& timelines, size_t top) {
  base::Json list = base::Json::array();
  for (const auto& line : timelines) {
    base::Json holders = base::Json::array(), points = base::Json::array();
    for (size_t i = 0; i < std::min(top, line.holders.size()); ++i)
      holders.push_back(
          {{"name", line.holders[i].name}, {"bytes", line.holders[i].bytes}, {"blocks", line.holders[i].blocks}});
    for (const auto& point : line.points) points.push_back({static_cast<double>(point.time) / 1e3, point.bytes});
    list.push_back({{"device", line.gpu ? base::format("gpu:{}", line.device) : "cpu"},
                    {"allocations", line.allocations},
                    {"held_before", line.held_before},
                    {"held_after", line.held_after},
                    {"peak", line.peak},
                    {"peak_us", static_cast<double>(line.peak_time) / 1e3},
                    {"peak_place", line.peak_place},
                    {"peak_reserved", line.peak_reserved},
                    {"holders", std::move(holders)},
                    {"points_us_bytes", std::move(points)}});
  }
  return list;
}

}  // namespace hyperion::analysis
