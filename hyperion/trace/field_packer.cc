#include "hyperion/trace/field_packer.h"

#include <algorithm>
#include <charconv>

#include "hyperion/text/json_text.h"
#include "hyperion/text/unicode.h"
#include "hyperion/trace/json_scan.h"

namespace hyperion::trace {
namespace {

// What is kept is checked once, when it is first met. `json` is an array around what stands at `at`.
void check_kept(const std::string& json, const char* at) {
  if (text::valid_prefix(json) != json.size()) throw ScanFault{at, "a text is not UTF-8"};
  try {
    text::json_elements(json);
  } catch (const text::JsonError&) {
    throw ScanFault{at, "a value is not JSON"};
  }
}

// The places of a form are control characters, so no key may hold one.
void check_key(std::string_view key) {
  unsigned char least = 0xff;
  for (const char c : key) least = std::min(least, static_cast<unsigned char>(c));
  if (least < 0x20) throw ScanFault{key.data(), "a name holds a control character"};
}

}  // namespace

void FieldPacker::begin() {
  form_.clear();
  values_.clear();
  known_ = {};
  begin_ = nullptr;
}

void FieldPacker::add(std::string_view key, const char*& at, const char* end) {
  if (begin_ == nullptr) begin_ = at;
  check_key(key);
  if (!form_.empty()) form_.append(", ");
  form_.push_back('"');
  form_.append(key);
  form_.append("\": ");
  const bool args = key == "args" && at < end && *at == '{';
  pack_value(at, end, args ? 1 : 2);
}

void FieldPacker::add(std::string_view key, std::string_view value) {
  // A number's end is told by what follows it.
  const std::string padded = std::string(value) + "," + std::string(kScanPadding, '\0');
  const char* at = padded.data();
  try {
    add(key, at, at + value.size() + 1);
    if (at != padded.data() + value.size()) throw ScanFault{at, "something follows a value"};
  } catch (ScanFault& fault) {
    fault.at = value.data() + std::clamp<ptrdiff_t>(fault.at - padded.data(), 0, static_cast<ptrdiff_t>(value.size()));
    begin_ = value.data();
    throw;
  }
  begin_ = value.data();
}

std::string_view FieldPacker::finish() {
  if (form_.empty()) return {};
  packed_.clear();
  packed_.append_varint(form_number(begin_));
  packed_.append(values_.view());
  return packed_.view();
}

uint32_t FieldPacker::form_number(const char* at) {
  uint32_t id = forms_.find(form_.view());
  if (id != kNoString) return id;
  std::string example = "[{" + std::string(form_.view()) + "}]";
  std::replace_if(
      example.begin(), example.end(),
      [](char c) { return c == kIntegerPlace || c == kDecimalPlace || c == kTextPlace; }, '0');
  check_kept(example, at);
  id = fields_->forms.add(form_.view());
  forms_.remember(form_.view(), id);
  return id;
}

// Of the first level of "args" alone.
int64_t* FieldPacker::known_field(std::string_view key) {
  if (key.size() != 6 && key.size() != 11) return nullptr;
  if (key == "correlation") return &known_.correlation;
  if (key == "External id" || key == "external id") return &known_.external;
  if (key == "device") return &known_.device;
  if (key == "stream") return &known_.stream;
  return nullptr;
}

// Numbers, and numbers in quotes as some profilers write streams.
void FieldPacker::learn_number(int64_t* known, const char* at, const char* end) {
  const char* begin = at < end && *at == '"' ? at + 1 : at;
  int64_t value = 0;
  const auto read = std::from_chars(begin, end, value);
  if (read.ec == std::errc() && read.ptr < end && (*read.ptr == '"') == (begin != at)) *known = value;
}

void FieldPacker::pack_value(const char*& at, const char* end, int depth) {
  if (at >= end) throw ScanFault{end, "a value is missing"};
  switch (*at) {
    case '{':
      return pack_object(at, end, depth);
    case '"': {
      const char* opening = at;
      const auto text = take_string(at, end);
      form_.push_back('"');
      pack_text(text, opening);
      form_.push_back('"');
      return;
    }
    case '[': {
      const char* opening = at;
      return pack_text(take_value(at, end), opening);
    }
    case 't':
    case 'f':
    case 'n': {
      const char* begin = at;
      const auto word = take_value(at, end);
      if (word != "true" && word != "false" && word != "null") throw ScanFault{begin, "no value begins so"};
      form_.append(word);
      return;
    }
    default:
      return pack_number(at, end);
  }
}

void FieldPacker::pack_object(const char*& at, const char* end, int depth) {
  if (depth > kDeepest) throw ScanFault{at, "it nests more than 200 deep"};
  const auto copy_to = [&](const char* next) {
    form_.append({at, static_cast<size_t>(next - at)});
    at = next;
  };
  copy_to(skip_space(at + 1, end));
  if (at < end && *at == '}') return copy_to(at + 1);
  for (;;) {
    const char* key_at = at;
    const auto key = take_string(at, end);
    check_key(key);
    at = skip_space(expect(skip_space(at, end), end, ':', "a ':' is missing"), end);
    form_.append({key_at, static_cast<size_t>(at - key_at)});
    int64_t* known = depth == 1 ? known_field(key) : nullptr;
    if (known != nullptr) learn_number(known, at, end);
    pack_value(at, end, depth + 1);
    copy_to(skip_space(at, end));
    if (at < end && *at == '}') return copy_to(at + 1);
    copy_to(skip_space(expect(at, end, ',', "a ',' or '}' is missing"), end));
  }
}

void FieldPacker::pack_number(const char*& at, const char* end) {
  const char* begin = at;
  const auto number = take_number(at, end);
  if (!number.plain) return pack_text({begin, static_cast<size_t>(at - begin)}, begin);
  if (number.fraction < 0) {
    form_.push_back(kIntegerPlace);
  } else {
    form_.push_back(kDecimalPlace);
    values_.push_back(static_cast<char>(number.fraction));
  }
  values_.append_varint(zigzag(number.digits));
}

void FieldPacker::pack_text(std::string_view text, const char* opening) {
  form_.push_back(kTextPlace);
  uint32_t id = texts_.find(text);
  if (id == kNoString) {
    const bool quoted = *opening == '"';
    check_kept((quoted ? "[\"" : "[") + std::string(text) + (quoted ? "\"]" : "]"), opening);
    id = fields_->texts.add(text);
    texts_.remember(text, id);
  }
  values_.append_varint(id);
}

}  // namespace hyperion::trace
