#include "hyperion/trace/event_parser.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "hyperion/base/format.h"
#include "hyperion/text/json_text.h"
#include "hyperion/text/unicode.h"
#include "hyperion/trace/json_scan.h"

namespace hyperion::trace {
namespace {

constexpr int64_t kMostTime = int64_t{1} << 61;  // nanoseconds either way; 73 years

// Between its quotes, as it stands; the text that it says.
std::string decoded(std::string_view raw) {
  const auto quoted = base::format("[\"{}\"]", raw);
  if (text::valid_prefix(quoted) != quoted.size()) throw ScanFault{raw.data(), "a text is not UTF-8"};
  try {
    return text::json_string(text::json_elements(quoted).at(0));
  } catch (const text::JsonError&) {
    throw ScanFault{raw.data(), "a value is not JSON"};
  }
}

void check_value(std::string_view raw) {
  const auto alone = base::format("[{}]", raw);
  if (text::valid_prefix(alone) != alone.size()) throw ScanFault{raw.data(), "a text is not UTF-8"};
  try {
    if (text::json_elements(alone).size() == 1) return;
  } catch (const text::JsonError&) {
    throw ScanFault{raw.data(), "a value is not JSON"};
  }
  throw ScanFault{raw.data(), "a value is not JSON"};
}

}  // namespace

struct EventParser::Fields {
  char phase = 0;
  std::string_view category, name, pid, tid;  // between the quotes; pid and tid as they stand; no data: not there
  const char* id = nullptr;
  int64_t begin = kNoTime, duration = kNone;
};

void ParsedEvents::clear() {
  events.clear();
  packed_sizes.clear();
  packed.clear();
  used = fault_at = 0;
  closed = false;
  fault = nullptr;
}

void EventParser::parse(std::string_view text, bool first, ParsedEvents& out) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const char* at = begin;
  out.clear();
  const auto close = [&] {
    out.closed = true;
    out.used = static_cast<size_t>(at + 1 - begin);
  };
  try {
    at = skip_space(at, end);
    if (first && at < end && *at == ']') return close();
    while (at < end) {
      out.used = static_cast<size_t>(at - begin);
      const auto events = out.events.size();
      const auto packed = out.packed.size();
      try {
        read_event(at, end, out);
        at = skip_space(at, end);
        if (at >= end) throw ScanFault{end, "a ',' or ']' is missing"};
      } catch (...) {
        out.events.resize(events);
        out.packed_sizes.resize(events);
        out.packed.resize(packed);
        throw;
      }
      if (*at == ']') return close();
      at = skip_space(expect(at, end, ',', "a ',' or ']' is missing"), end);
    }
    out.used = text.size();
  } catch (const ScanFault& found) {
    if (found.at >= end) return;
    out.fault = found.what;
    out.fault_at = static_cast<size_t>(std::max(found.at, begin) - begin);
  }
}

void EventParser::read_event(const char*& at, const char* end, ParsedEvents& out) {
  at = skip_space(expect(at, end, '{', "an event is no object"), end);
  Fields fields;
  packer_.begin();
  if (at < end && *at == '}') {
    ++at;
  } else {
    for (;;) {
      const auto key = take_string(at, end);
      at = skip_space(expect(skip_space(at, end), end, ':', "a ':' is missing"), end);
      read_member(fields, key, at, end);
      at = skip_space(at, end);
      if (at < end && *at == '}') {
        ++at;
        break;
      }
      at = skip_space(expect(at, end, ',', "a ',' or '}' is missing"), end);
    }
  }
  Trace::Event event;
  event.name = name_number(fields.name);
  event.type = type_number(fields);
  event.track = track_number(fields);
  event.begin = fields.begin;
  event.duration = fields.duration;
  event.correlation = packer_.known().correlation;
  event.external = packer_.known().external;
  const bool flow = fields.phase == 's' || fields.phase == 't' || fields.phase == 'f';
  if (flow && fields.id != nullptr) std::from_chars(fields.id, end, event.correlation);
  const auto packed = packer_.finish();
  out.packed += packed;
  out.packed_sizes.push_back(static_cast<uint32_t>(packed.size()));
  out.events.push_back(event);
}

// Fields of a form that no column can hold are kept with the others.
void EventParser::read_member(Fields& fields, std::string_view key, const char*& at, const char* end) {
  if (at >= end) throw ScanFault{end, "a value is missing"};
  const bool text = *at == '"';
  const char* begin = at;
  if (text && (key == "name" || key == "cat" || key == "ph")) {
    const auto value = take_string(at, end);
    if (key == "name") {
      fields.name = value;
    } else if (key == "cat") {
      fields.category = value;
    } else if (value.size() == 1 && static_cast<unsigned char>(value[0]) > 0x20 &&
               static_cast<unsigned char>(value[0]) < 0x7f) {
      fields.phase = value[0];
    } else {
      packer_.add(key, at = begin, end);
    }
  } else if (key == "pid" || key == "tid") {
    auto& value = key == "pid" ? fields.pid : fields.tid;
    if (*at >= '0' && *at <= '9') {
      take_number(at, end);
      value = {begin, static_cast<size_t>(at - begin)};
    } else {
      value = take_value(at, end);
    }
  } else if (key == "ts") {
    if (!read_time(fields.begin, at, end)) packer_.add(key, at = begin, end);
  } else if (key == "dur") {
    const bool exact = read_time(fields.duration, at, end);
    if (!exact || fields.duration < 0) {
      if (fields.duration < 0) fields.duration = exact ? 0 : kNone;
      packer_.add(key, at = begin, end);
    }
  } else {
    if (key == "id") fields.id = at;
    packer_.add(key, at, end);
  }
}

// Microseconds to nanoseconds; whether these are all that was said.
bool EventParser::read_time(int64_t& nanoseconds, const char*& at, const char* end) {
  if (*at != '-' && (*at < '0' || *at > '9')) return false;
  const char* begin = at;
  const auto number = take_number(at, end);
  if (number.plain && number.fraction <= 3 && number.digits > -kMostTime / 1000 && number.digits < kMostTime / 1000) {
    static constexpr int64_t kScale[] = {1000, 100, 10, 1};
    nanoseconds = number.digits * kScale[std::max(number.fraction, 0)];
    return true;
  }
  const double microseconds = std::strtod(std::string(begin, at).c_str(), nullptr);
  if (!(std::abs(microseconds) < static_cast<double>(kMostTime) / 1000))
    throw ScanFault{begin, "a time is beyond any clock"};
  nanoseconds = std::llround(microseconds * 1000);
  return false;
}

uint32_t EventParser::name_number(std::string_view name) {
  if (name.data() == nullptr) return kNoString;
  uint32_t id = names_.find(name);
  if (id != kNoString) return id;
  id = shared_->trace.names.add(decoded(name));
  names_.remember(name, id);
  return id;
}

uint16_t EventParser::type_number(const Fields& fields) {
  key_.assign(1, fields.phase);
  key_.push_back(fields.category.data() != nullptr ? '1' : '0');
  key_ += fields.category;
  uint32_t id = types_.find(key_);
  if (id == kNoString) {
    const bool said = fields.category.data() != nullptr;
    const auto category = said ? decoded(fields.category) : std::string();
    {
      const std::scoped_lock lock(shared_->tables);
      id = shared_->trace.add_type(fields.phase, said ? std::string_view(category) : std::string_view());
    }
    types_.remember(key_, id);
  }
  return static_cast<uint16_t>(id);
}

uint32_t EventParser::track_number(const Fields& fields) {
  const auto& known = packer_.known();
  key_.assign(fields.pid);
  key_.push_back('\n');
  key_ += fields.tid;
  key_.append(reinterpret_cast<const char*>(&known.device), sizeof known.device);
  key_.append(reinterpret_cast<const char*>(&known.stream), sizeof known.stream);
  uint32_t id = tracks_.find(key_);
  if (id == kNoString) {
    for (const auto& part : {fields.pid, fields.tid})
      if (part.data() != nullptr) check_value(part);
    {
      const std::scoped_lock lock(shared_->tables);
      id = shared_->trace.add_track({std::string(fields.pid), std::string(fields.tid), known.device, known.stream});
    }
    tracks_.remember(key_, id);
  }
  return id;
}

size_t guess_event(std::string_view text, size_t from) {
  static constexpr std::string_view kKeys[] = {"\"ph\"", "\"name\"", "\"cat\"", "\"ts\"", "\"pid\"", "\"tid\""};
  for (size_t at = text.find('{', from); at != std::string_view::npos; at = text.find('{', at + 1)) {
    size_t before = at;
    const auto back = [&] {
      while (before > 0 && is_json_space(text[before - 1])) --before;
      return before > 0 ? text[--before] : '\0';
    };
    const char comma = back(), brace = back();  // from right to left
    if (comma != ',' || brace != '}') continue;
    const size_t key = text.find_first_not_of(" \n\r\t", at + 1);
    if (key == std::string_view::npos) break;
    if (std::any_of(std::begin(kKeys), std::end(kKeys),
                    [&](auto known) { return text.substr(key).starts_with(known); }))
      return at;
  }
  return std::string_view::npos;
}

}  // namespace hyperion::trace
