#include <algorithm>
#include <string>
#include <vector>

#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/text/json_text.h"
#include "hyperion/trace/export_trace.h"

namespace hyperion::trace {
namespace {

constexpr size_t kAtOnce = size_t{1} << 20;

void append_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += base::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out.push_back(c);
    }
  }
  out.push_back('"');
}

// Nanoseconds as microseconds with three decimals.
void append_microseconds(std::string& out, int64_t nanoseconds) {
  const auto size = static_cast<uint64_t>(nanoseconds < 0 ? -nanoseconds : nanoseconds);
  if (nanoseconds < 0) out.push_back('-');
  out += std::to_string(size / 1000);
  const auto rest = static_cast<unsigned>(size % 1000);
  const char decimals[4] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                            static_cast<char>('0' + rest % 10)};
  out.append(decimals, sizeof decimals);
}

// Which forms say "ts" and "dur" themselves, in more words than a column has.
class FormTimes {
 public:
  explicit FormTimes(const PackedFields& fields) : fields_(&fields), known_(fields.forms.size()) {}

  struct Says {
    bool known = false, ts = false, dur = false;
  };
  Says of(size_t event, std::string_view members) {
    const auto packed = fields_->packed(event);
    if (packed.empty()) return {};
    const char* at = packed.data();
    auto& says = known_[take_varint(at, at + packed.size())];
    if (says.known) return says;
    says.known = true;
    const std::string object = "{" + std::string(members) + "}";
    for (const auto& member : text::json_members(object)) {
      says.ts = says.ts || text::json_key_is(member.key, "ts");
      says.dur = says.dur || text::json_key_is(member.key, "dur");
    }
    return says;
  }

 private:
  const PackedFields* fields_;
  std::vector<Says> known_;
};

void append_event(std::string& out, const Trace& trace, size_t i, FormTimes& times) {
  const auto members = trace.fields.text(i);
  const auto says = times.of(i, members);
  bool first = true;
  const auto key = [&](std::string_view name) {
    out += first ? "" : ", ";
    first = false;
    out += name;
  };
  out += "  {\n    ";
  const auto& type = trace.types[trace.type[i]];
  if (type.phase != 0) {
    key("\"ph\": ");
    append_string(out, {&type.phase, 1});
  }
  if (type.category_name != kNoString) {
    key("\"cat\": ");
    append_string(out, trace.names[type.category_name]);
  }
  if (trace.name[i] != kNoString) {
    key("\"name\": ");
    append_string(out, trace.name_text(i));
  }
  const auto& track = trace.tracks[trace.track[i]];
  if (!track.pid.empty()) key("\"pid\": "), out += track.pid;
  if (!track.tid.empty()) key("\"tid\": "), out += track.tid;
  if (trace.begin[i] != kNoTime && !says.ts) {
    key("\"ts\": ");
    append_microseconds(out, trace.begin[i]);
  }
  if (trace.duration[i] != kNone && !says.dur) {
    key("\"dur\": ");
    append_microseconds(out, trace.duration[i]);
  }
  if (!members.empty()) {
    out += first ? "" : ",\n    ";
    out += members;
  }
  out += "\n  }";
}

// Kineto writes "traceName" last; all others stand before the events.
bool stands_last(const Member& member) { return member.key == "traceName"; }

void append_members(std::string& out, const FileFacts& facts) {
  const auto add = [&](std::string_view name, std::string_view value) {
    out += "  ";
    append_string(out, name);
    out += ": ";
    out += value;
    out += ",\n";
  };
  const auto said = [&](std::string_view name) {
    return std::any_of(facts.members.begin(), facts.members.end(), [&](const auto& each) { return each.key == name; });
  };
  if (facts.members.empty()) add("schemaVersion", "1");
  for (const auto& member : facts.members)
    if (!stands_last(member)) add(member.key, member.value);
  // What a reader of another file found, but does not stand there as Kineto says it.
  if (facts.rank && !said("distributedInfo")) {
    std::string value = base::format(R"({{"backend": "{}", "rank": {})", facts.backend, *facts.rank);
    if (facts.world_size) value += base::format(", \"world_size\": {}", *facts.world_size);
    add("distributedInfo", value + "}");
  }
  if (facts.base_time_ns != 0 && !said("baseTimeNanoseconds"))
    add("baseTimeNanoseconds", std::to_string(facts.base_time_ns));
}

}  // namespace

void write_chrome(const Trace& trace, base::WritableFile& file) {
  std::string out;
  const auto& facts = trace.facts;
  if (facts.bare) {
    out = "[\n";
  } else {
    out = "{\n";
    append_members(out, facts);
    out += "  \"traceEvents\": [\n";
  }
  FormTimes times(trace.fields);
  for (size_t i = 0; i < trace.size(); ++i) {
    if (i > 0) out += ",\n";
    append_event(out, trace, i, times);
    if (out.size() < kAtOnce) continue;
    base::throw_if_stopped("writing a trace");
    file.append(out);
    out.clear();
  }
  out += facts.bare ? "\n]" : "\n  ]";
  if (!facts.bare) {
    for (const auto& member : facts.members) {
      if (!stands_last(member)) continue;
      out += ",\n  ";
      append_string(out, member.key);
      out += ": " + member.value;
    }
    out += "\n}";
  }
  file.append(out + "\n");
}

}  // namespace hyperion::trace
