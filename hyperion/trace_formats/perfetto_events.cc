#include "hyperion/trace_formats/perfetto_events.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "hyperion/base/format.h"
#include "hyperion/trace_formats/perfetto_arguments.h"
#include "hyperion/trace_formats/perfetto_words.h"
#include "hyperion/trace_formats/protobuf_reader.h"

namespace hyperion::trace {
namespace {

// How far below the top of a track's open slices the one of the same writer is looked for.
constexpr size_t kDeepestSearch = 64;

// Bytes of text, and how many of them for each byte of the packets.
constexpr uint64_t kAlwaysKept = uint64_t{32} << 20, kMostKeptPerByte = 16;
constexpr uint64_t kAlwaysUnpacked = uint64_t{1} << 30, kMostUnpackedPerByte = 1000;

// An integer argument of this name in members of JSON.
std::optional<int64_t> whole_argument(std::string_view members, std::string_view quoted_key) {
  for (size_t at = members.find(quoted_key); at != std::string_view::npos; at = members.find(quoted_key, at + 1)) {
    if (at > 0 && !members.substr(0, at).ends_with(", ")) continue;
    size_t digit = at + quoted_key.size();
    if (!members.substr(digit).starts_with(": ")) continue;
    digit += 2;
    uint64_t value = 0;
    size_t end = digit;
    for (; end < members.size() && members[end] >= '0' && members[end] <= '9' && end - digit < 18; ++end)
      value = value * 10 + static_cast<uint64_t>(members[end] - '0');
    if (end > digit) return static_cast<int64_t>(value);
  }
  return {};
}

}  // namespace

PerfettoEvents::PerfettoEvents(PerfettoTracks& tracks) : tracks_(tracks), packer_(trace_.fields) { add_names(); }

void PerfettoEvents::add(std::string_view message, int64_t time, const PerfettoSequence& sequence,
                         uint32_t sequence_number) {
  auto event = read_track_event(message, sequence);
  args_.clear();
  auto& row = row_of(event.track.value_or(sequence.track));
  if (event.type == TrackEvent::kEnds) {
    end_slice(row, time, sequence_number);
  } else if (event.type == TrackEvent::kBegins) {
    add_slice(event, time, sequence, row, /*lasts=*/true);
    row.open.push_back({trace_.size() - 1, sequence_number});
  } else if (event.type == TrackEvent::kInstant) {
    add_slice(event, time, sequence, row, /*lasts=*/false);
  } else if (event.type == TrackEvent::kCounts) {
    add_value(event, time, row);
  } else {
    ++other_;
    return;
  }
  check_sizes(message, event);
  first_ = std::min(first_, time);
  last_ = std::max(last_, time);
}

// A few bytes may refer to a long text, again and again.
void PerfettoEvents::check_sizes(std::string_view message, const TrackEvent& event) {
  unpacked_ += args_.size() + event.name.size() + event.category.size();
  const size_t kept = trace_.fields.forms.bytes() + trace_.fields.texts.bytes();
  if (kept > kAlwaysKept + kMostKeptPerByte * read_ || unpacked_ > kAlwaysUnpacked + kMostUnpackedPerByte * read_)
    throw ProtobufFault{"its events refer to far more text than a trace has", message.data()};
}

PerfettoEvents::Row& PerfettoEvents::row_of(uint64_t uuid) {
  const auto [found, added] = rows_.try_emplace(uuid);
  if (added) found->second.is = tracks_.row(uuid);
  return found->second;
}

void PerfettoEvents::add_slice(TrackEvent& event, int64_t time, const PerfettoSequence& sequence, Row& row,
                               bool lasts) {
  args_.clear();
  for (const auto& annotation : event.annotations) append_perfetto_argument(args_, annotation, sequence);
  const auto kineto = kineto_category(event.category, event.name, sequence.of_sdk);
  const bool on_device = is_device_work(category_of(lasts ? 'X' : 'i', kineto.empty() ? event.category : kineto));
  if (!kineto.empty()) {
    add_kineto_arguments(event, row, on_device);
    event.category = kineto;
    event.name = kineto_name(kineto, event.name);
  }
  append(lasts ? 'X' : 'i', event.category, event.name, row, time, lasts ? 0 : kNone);
  for (const auto& [flow, ends] : event.flows) arrow_ends_.push_back({flow, time, row.track, ends, on_device});
}

// Those that are not there under Kineto's names. Without a correlation id the flow that a launch and its kernel share
// is one.
void PerfettoEvents::add_kineto_arguments(const TrackEvent& event, const Row& row, bool on_device) {
  const std::string said = args_;
  const auto add = [&](std::string_view quoted_key, std::optional<int64_t> value) {
    if (!value || *value == kNone || whole_argument(said, quoted_key)) return;
    args_ += base::format("{}{}: {}", args_.empty() ? "" : ", ", quoted_key, *value);
  };
  auto correlation = whole_argument(said, R"("corr_id")");
  if (!correlation && !event.flows.empty()) correlation = static_cast<int64_t>(event.flows[0].first & INT64_MAX);
  add(R"("correlation")", correlation);
  if (!on_device) return;
  const auto or_else = [&](int64_t of_track, std::string_view quoted_key) {
    return of_track != kNone ? std::optional(of_track) : whole_argument(said, quoted_key);
  };
  add(R"("device")", or_else(row.is.device, R"("dst_agent_id")"));
  const auto stream = or_else(row.is.stream, R"("stream_id")");
  add(R"("stream")", stream ? stream : whole_argument(said, R"("queue")"));
}

// The innermost one of the same writer, or else the innermost one.
void PerfettoEvents::end_slice(Row& row, int64_t time, uint32_t sequence) {
  auto& open = row.open;
  if (open.empty()) {
    ++unopened_;
    return;
  }
  size_t chosen = open.size() - 1;
  for (size_t i = open.size(), least = i - std::min(i, kDeepestSearch); i-- > least;) {
    if (open[i].sequence != sequence) continue;
    chosen = i;
    break;
  }
  const auto event = open[chosen].event;
  trace_.duration[event] = std::max<int64_t>(time - trace_.begin[event], 0);
  open.erase(open.begin() + static_cast<ptrdiff_t>(chosen));
}

void PerfettoEvents::add_value(const TrackEvent& event, int64_t time, Row& row) {
  double value = event.value * row.is.scale;
  if (row.is.adds_up) value = row.sum += value;
  args_.clear();
  append_json_text(args_, row.is.unit.empty() ? "value" : row.is.unit);
  args_ += ": ";
  if (value > -1e15 && value < 1e15 && value == static_cast<double>(static_cast<int64_t>(value)))
    args_ += std::to_string(static_cast<int64_t>(value));
  else
    append_json_real(args_, value);
  append('C', event.category, row.is.counter.empty() ? event.name : row.is.counter, row, time, kNone);
}

void PerfettoEvents::append(char phase, std::string_view category, std::string_view name, Row& row, int64_t time,
                            int64_t duration) {
  packer_.begin();
  if (!args_.empty()) packer_.add("args", "{" + args_ + "}");
  const auto packed = packer_.finish();
  const auto& known = packer_.known();
  if (row.track == kNoString || row.device != known.device || row.stream != known.stream) {
    row.device = known.device;
    row.stream = known.stream;
    row.track = trace_.add_track({row.is.pid, row.is.tid, known.device, known.stream});
  }
  Trace::Event event;
  event.name = trace_.names.add(name);
  event.type = type_of(phase, category);
  event.track = row.track;
  event.begin = time;
  event.duration = duration;
  event.correlation = known.correlation;
  event.external = known.external;
  trace_.append(event, packed);
}

uint16_t PerfettoEvents::type_of(char phase, std::string_view category) {
  key_.assign(1, phase);
  key_ += category;
  const auto found = types_.find(key_);
  if (found != types_.end()) return found->second;
  const auto type = trace_.add_type(phase, category.empty() ? std::string_view() : category);
  types_.emplace(key_, type);
  return type;
}

Trace PerfettoEvents::finish() && {
  close_rest();
  add_arrows();
  add_facts();
  return std::move(trace_);
}

// As Perfetto's own UI has it, an open slice lasts until the trace ends. What runs on a device would seem to keep it
// busy until then: that is taken to last no time.
void PerfettoEvents::close_rest() {
  for (const auto& [uuid, row] : rows_) {
    unclosed_ += static_cast<int64_t>(row.open.size());
    for (const auto& open : row.open)
      if (!is_device_work(trace_.category(open.event))) trace_.duration[open.event] = last_ - trace_.begin[open.event];
  }
}

// In the order of time; a flow that one event alone has is no arrow.
void PerfettoEvents::add_arrows() {
  std::sort(arrow_ends_.begin(), arrow_ends_.end(), [](const ArrowEnd& a, const ArrowEnd& b) {
    return std::tie(a.flow, a.time, a.last, a.track) < std::tie(b.flow, b.time, b.last, b.track);
  });
  int64_t number = 0;
  for (size_t i = 0, end = 0; i < arrow_ends_.size(); i = end) {
    bool launches = false;
    for (end = i; end < arrow_ends_.size() && arrow_ends_[end].flow == arrow_ends_[i].flow; ++end)
      launches = launches || arrow_ends_[end].on_device;
    if (end - i < 2) continue;
    ++number;
    const std::string_view name = launches ? "ac2g" : "flow";
    for (size_t at = i; at < end; ++at) {
      packer_.begin();
      packer_.add("id", std::to_string(number));
      if (at + 1 == end) packer_.add("bp", "\"e\"");
      Trace::Event event;
      event.name = trace_.names.add(name);
      event.type = type_of(at == i ? 's' : at + 1 == end ? 'f' : 't', name);
      event.track = arrow_ends_[at].track;
      event.begin = arrow_ends_[at].time;
      event.correlation = number;
      trace_.append(event, packer_.finish());
    }
  }
}

void PerfettoEvents::add_names() {
  for (const auto& each : tracks_.names()) {
    Row row;
    row.is.pid = each.pid;
    row.is.tid = each.tid.empty() ? "0" : each.tid;
    args_ = "\"name\": ";
    append_json_text(args_, each.name);
    append('M', {}, each.tid.empty() ? "process_name" : "thread_name", row, kNoTime, kNone);
  }
}

// Times count from the first event, so that they have few digits.
void PerfettoEvents::add_facts() {
  auto& members = trace_.facts.members;
  members.push_back({"schemaVersion", "1"});
  if (first_ != INT64_MAX) {
    members.push_back({"baseTimeNanoseconds", std::to_string(first_)});
    for (size_t i = 0; i < trace_.size(); ++i)
      if (trace_.begin[i] != kNoTime) trace_.begin[i] -= first_;
  }
  std::string counts;
  const auto add = [&](std::string_view what, int64_t count) {
    if (count > 0) counts += base::format("{}\"{}\": {}", counts.empty() ? "" : ", ", what, count);
  };
  add("slices without an end", unclosed_);
  add("ends without a slice", unopened_);
  add("events that refer to lost packets", lost_);
  add("events of other kinds", other_);
  if (!counts.empty()) members.push_back({"perfetto", "{" + counts + "}"});
  read_facts(trace_.facts);
}

}  // namespace hyperion::trace
