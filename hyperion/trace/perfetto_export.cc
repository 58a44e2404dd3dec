#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/signals.h"
#include "hyperion/text/json_text.h"
#include "hyperion/trace/export_trace.h"
#include "hyperion/trace/nested_slices.h"
#include "hyperion/trace/perfetto_packets.h"

namespace hyperion::trace {
namespace {

// A text of JSON as what it says, all else as it stands.
std::string said(std::string_view json) {
  return !json.empty() && text::json_is_text(json) ? text::json_string(json) : std::string(json);
}

// Of a pid or tid.
std::string shown_name(std::string_view json) {
  const auto name = said(json);
  return name.empty() ? "unnamed" : name;
}

std::optional<int64_t> integer_in(std::string_view json, int64_t least, int64_t most) {
  int64_t value = 0;
  const auto read = std::from_chars(json.data(), json.data() + json.size(), value);
  const bool whole = read.ec == std::errc() && read.ptr == json.data() + json.size();
  return whole && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

uint64_t uuid_of(std::string_view what) { return std::max<uint64_t>(base::hash_64(what), 1); }

struct FlowKey {
  uint32_t row;
  int64_t time;
  bool operator==(const FlowKey&) const = default;
};
struct FlowKeyHash {
  size_t operator()(const FlowKey& key) const { return static_cast<size_t>(key.time) * 0x9E3779B97F4A7C15U + key.row; }
};

class PerfettoExport {
 public:
  PerfettoExport(const Trace& trace, base::WritableFile& out) : trace_(trace), packets_(out) {}

  Exported write() {
    find_rows();
    sort_events();
    origin_ = trace_.facts.base_time_ns;
    if (first_ != INT64_MAX && (origin_ < 0 || origin_ > INT64_MAX / 2 || origin_ + first_ < 0)) origin_ = -first_;
    describe_processes();
    for (uint32_t row = 0; row < rows_.size(); ++row) write_row(row);
    write_counters();
    packets_.flush();
    for (const auto& [key, flows] : flows_) exported_.left_out += static_cast<int64_t>(flows.size());
    return exported_;
  }

 private:
  // A thread or stream: pid and tid as they stand in JSON.
  struct Row {
    std::string pid, tid, name;
    std::vector<LastingEvent> slices;
    std::vector<uint64_t> instants;
  };
  struct Process {
    std::string name, labels;
    bool device = false;
  };

  void find_rows() {
    std::map<std::pair<std::string, std::string>, uint32_t> numbers;
    for (const auto& track : trace_.tracks) {
      const auto [found, added] = numbers.try_emplace({track.pid, track.tid}, static_cast<uint32_t>(rows_.size()));
      if (added) rows_.push_back({track.pid, track.tid, {}, {}, {}});
      row_of_track_.push_back(found->second);
    }
  }

  void sort_events() {
    for (size_t i = 0; i < trace_.size(); ++i) {
      const char phase = trace_.types[trace_.type[i]].phase;
      const auto category = trace_.category(i);
      auto& row = rows_[row_of_track_[trace_.track[i]]];
      if (category == Category::metadata) {
        read_name(i, row);
        continue;
      }
      const int64_t begin = trace_.begin[i];
      if (begin == kNoTime) {
        ++exported_.left_out;
        continue;
      }
      first_ = std::min(first_, begin);
      if (is_device_work(category)) processes_[row.pid].device = true;
      if (category == Category::flow)
        add_flow(i, phase);
      else if (phase == 'X')
        row.slices.push_back({begin, trace_.end(i), i});
      else if (category == Category::instant)
        row.instants.push_back(i);
      else if (category == Category::counter)
        counters_.push_back(i);
      else
        ++exported_.left_out;
    }
  }

  void read_name(size_t i, Row& row) {
    const auto name = trace_.name_text(i);
    auto& process = processes_[row.pid];
    if (name == "process_name") process.name = said(trace_.arg(i, "name"));
    if (name == "process_labels") process.labels = said(trace_.arg(i, "labels"));
    if (name == "thread_name") row.name = said(trace_.arg(i, "name"));
  }

  // An arrow's end belongs to the slice of its row that begins when it does.
  void add_flow(size_t i, char phase) {
    const auto& type = trace_.types[trace_.type[i]];
    const auto category = trace_.names[type.category_name];
    const auto id = trace_.correlation(i) != kNone ? base::format("{}", trace_.correlation(i)) : trace_.fields.text(i);
    flows_[{row_of_track_[trace_.track[i]], trace_.begin[i]}].push_back(
        {uuid_of(base::format("{}\n{}", category, id)), phase == 'f'});
  }

  uint64_t process_uuid(const std::string& pid) const { return uuid_of("process\n" + pid); }

  std::string process_name(const std::string& pid) const {
    const auto found = processes_.find(pid);
    if (found == processes_.end()) return {};
    const auto& [name, labels, device] = found->second;
    return labels.empty() ? name : name.empty() ? labels : base::format("{} ({})", name, labels);
  }

  // Pids of devices are no processes of a machine, and 0 is its idle one.
  std::optional<int64_t> process_number(const std::string& pid) const {
    const auto found = processes_.find(pid);
    if (found != processes_.end() && found->second.device) return std::nullopt;
    return integer_in(pid, 1, INT32_MAX);
  }

  void describe_processes() {
    std::unordered_set<std::string> told;
    for (const auto& row : rows_) {
      if (!told.insert(row.pid).second) continue;
      PerfettoTrack track;
      track.uuid = process_uuid(row.pid);
      track.pid = process_number(row.pid);
      track.name = process_name(row.pid);
      if (!track.pid && track.name.empty()) track.name = shown_name(row.pid);
      packets_.track(track);
    }
  }

  // One more for each lane behind the first.
  uint64_t row_track(const Row& row, size_t lane) {
    PerfettoTrack track;
    track.uuid = uuid_of(base::format("thread\n{}\n{}\n{}", row.pid, row.tid, lane));
    track.parent = process_uuid(row.pid);
    track.name = row.name;
    const auto tid = integer_in(row.tid, 1, INT64_MAX);
    if (lane == 0 && tid && process_number(row.pid)) {
      track.pid = process_number(row.pid);
      track.tid = tid;
    } else {
      if (track.name.empty()) track.name = shown_name(row.tid);
      if (lane > 0) track.name += base::format(" ({})", lane + 1);
    }
    packets_.track(track);
    return track.uuid;
  }

  uint64_t time(int64_t nanoseconds) const { return static_cast<uint64_t>(nanoseconds + origin_); }

  std::string_view category_name(size_t i) const { return trace_.names[trace_.types[trace_.type[i]].category_name]; }

  std::string object_args(size_t i) const {
    auto args = trace_.args(i);
    return !args.empty() && text::json_is_object(args) ? args : std::string();
  }

  void write_row(uint32_t number) {
    auto& row = rows_[number];
    if (row.slices.empty() && row.instants.empty()) return;
    base::throw_if_stopped("writing a trace");
    auto lanes = nested_lanes(std::move(row.slices));
    if (lanes.empty()) lanes.emplace_back();
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const uint64_t uuid = row_track(row, lane);
      for (const auto& mark : lanes[lane]) {
        if (mark.opens)
          packets_.begin_slice(uuid, time(mark.time), category_name(mark.event), trace_.name_text(mark.event),
                               object_args(mark.event), flows_at(number, mark.time));
        else
          packets_.end_slice(uuid, time(mark.time));
      }
      if (lane > 0) continue;
      for (const uint64_t i : row.instants)
        packets_.instant(uuid, time(trace_.begin[i]), category_name(i), trace_.name_text(i), object_args(i));
    }
  }

  // Once; further slices that begin there have none.
  std::vector<PerfettoFlow> flows_at(uint32_t row, int64_t time) {
    const auto found = flows_.find({row, time});
    if (found == flows_.end()) return {};
    auto flows = std::move(found->second);
    flows_.erase(found);
    return flows;
  }

  // A track for each number that a counter's events carry.
  void write_counters() {
    std::unordered_map<std::string, uint64_t> tracks;
    for (const uint64_t i : counters_) {
      const auto& row = rows_[row_of_track_[trace_.track[i]]];
      const auto args = object_args(i);
      if (args.empty()) continue;
      for (const auto& member : text::json_members(args)) {
        if (member.value[0] != '-' && (member.value[0] < '0' || member.value[0] > '9')) continue;
        const auto unit = text::json_string("\"" + std::string(member.key) + "\"");
        const auto name = base::format("{} {}", trace_.name_text(i), unit);
        const auto [found, added] = tracks.try_emplace(row.pid + "\n" + name, 0);
        if (added) {
          found->second = uuid_of("counter\n" + found->first);
          packets_.track({found->second, process_uuid(row.pid), name, {}, {}, true, unit});
        }
        const double value = std::strtod(std::string(member.value).c_str(), nullptr);
        packets_.counter(found->second, time(trace_.begin[i]), category_name(i), std::isfinite(value) ? value : 0);
      }
    }
  }

  const Trace& trace_;
  PerfettoPackets packets_;
  Exported exported_;
  std::vector<Row> rows_;
  std::vector<uint32_t> row_of_track_;
  std::map<std::string, Process> processes_;  // by pid
  std::unordered_map<FlowKey, std::vector<PerfettoFlow>, FlowKeyHash> flows_;
  std::vector<uint64_t> counters_;
  int64_t first_ = INT64_MAX, origin_ = 0;
};

}  // namespace

Exported write_perfetto(const Trace& trace, base::WritableFile& out) { return PerfettoExport(trace, out).write(); }

}  // namespace hyperion::trace
