#include "hyperion/trace_formats/perfetto_arguments.h"

#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "hyperion/base/format.h"
#include "hyperion/text/json_text.h"
#include "hyperion/text/unicode.h"
#include "hyperion/trace_formats/protobuf_reader.h"

namespace hyperion::trace {
namespace {

constexpr int kDeepestArgument = 32;

struct AnnotationField {
  enum : int {
    kKeyNumber = 1,
    kBool = 2,
    kUnsigned = 3,
    kInteger = 4,
    kReal = 5,
    kText = 6,
    kPointer = 7,
    kJson = 9,
    kKey = 10,
    kDictionary = 11,
    kArray = 12,
    kTextNumber = 17
  };
};

bool is_whole_json(std::string_view value) {
  if (text::valid_prefix(value) != value.size()) return false;
  try {
    return text::json_elements("[" + std::string(value) + "]").size() == 1;
  } catch (const text::JsonError&) {
    return false;
  }
}

class ArgumentWriter {
 public:
  ArgumentWriter(std::string& out, const PerfettoSequence& sequence) : out_(&out), sequence_(&sequence) {}

  void member(std::string_view message, int depth) {
    const auto said = read(message, depth);
    if (!out_->empty() && out_->back() != '{') *out_ += ", ";
    append_json_text(*out_, said.key_number ? sequence_->keys.text(*said.key_number) : std::string(said.key));
    *out_ += ": ";
    value(said, depth);
  }

 private:
  struct Annotation {
    std::optional<uint64_t> key_number;
    std::string_view key;
    ProtobufField value;                                 // number 0: none
    std::vector<std::string_view> dictionary, elements;  // annotations within
  };

  static Annotation read(std::string_view message, int depth) {
    if (depth > kDeepestArgument) throw ProtobufFault{"arguments nest more than 32 deep", message.data()};
    Annotation said;
    ProtobufReader in(message);
    for (ProtobufField field; in.next(field);) {
      const bool bytes = field.is_bytes();
      switch (field.number) {
        case AnnotationField::kKeyNumber:
          if (!bytes) said.key_number = field.value;
          break;
        case AnnotationField::kKey:
          if (bytes) said.key = field.bytes;
          break;
        case AnnotationField::kDictionary:
          if (bytes) said.dictionary.push_back(field.bytes);
          break;
        case AnnotationField::kArray:
          if (bytes) said.elements.push_back(field.bytes);
          break;
        case AnnotationField::kText:
        case AnnotationField::kJson:
          if (bytes) said.value = field;
          break;
        case AnnotationField::kBool:
        case AnnotationField::kUnsigned:
        case AnnotationField::kInteger:
        case AnnotationField::kReal:
        case AnnotationField::kPointer:
        case AnnotationField::kTextNumber:
          if (!bytes) said.value = field;
          break;
        default:
          break;
      }
    }
    return said;
  }

  void value(const Annotation& said, int depth) {
    if (!said.dictionary.empty()) {
      *out_ += '{';
      for (const auto& each : said.dictionary) member(each, depth + 1);
      *out_ += '}';
    } else if (!said.elements.empty()) {
      *out_ += '[';
      for (size_t i = 0; i < said.elements.size(); ++i) {
        if (i > 0) *out_ += ", ";
        value(read(said.elements[i], depth + 1), depth + 1);
      }
      *out_ += ']';
    } else {
      simple(said.value);
    }
    if (out_->size() > kMostArgumentText) throw ProtobufFault{"an event's arguments are longer than 4 MiB", nullptr};
  }

  void simple(const ProtobufField& field) {
    switch (field.number) {
      case AnnotationField::kBool:
        *out_ += field.value != 0 ? "true" : "false";
        break;
      case AnnotationField::kUnsigned:
        *out_ += std::to_string(field.value);
        break;
      case AnnotationField::kInteger:
        *out_ += std::to_string(static_cast<int64_t>(field.value));
        break;
      case AnnotationField::kReal:
        append_json_real(*out_, field.real());
        break;
      case AnnotationField::kPointer:
        *out_ += base::format("\"0x{:x}\"", field.value);
        break;
      case AnnotationField::kText:
        append_json_text(*out_, field.bytes);
        break;
      case AnnotationField::kTextNumber:
        append_json_text(*out_, sequence_->strings.text(field.value));
        break;
      case AnnotationField::kJson:
        if (is_whole_json(field.bytes))
          *out_ += field.bytes;
        else
          append_json_text(*out_, field.bytes);
        break;
      default:
        *out_ += "null";
    }
  }

  std::string* out_;
  const PerfettoSequence* sequence_;
};

}  // namespace

void append_json_text(std::string& out, std::string_view text) {
  if (text::valid_prefix(text) != text.size()) return append_json_text(out, repaired_utf8(text));
  out.push_back('"');
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    const char* stop = text::find_string_break(at, end);
    out.append(at, stop);
    if (stop == end) break;
    if (*stop == '"' || *stop == '\\')
      out += {'\\', *stop};
    else if (*stop == '\n')
      out += "\\n";
    else
      out += base::format("\\u{:04x}", static_cast<int>(*stop));
    at = stop + 1;
  }
  out.push_back('"');
}

void append_json_real(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += std::isnan(value) ? "\"nan\"" : value > 0 ? "\"inf\"" : "\"-inf\"";
    return;
  }
  char text[32];
  const auto written = std::to_chars(std::begin(text), std::end(text), value);
  const std::string_view digits(text, static_cast<size_t>(written.ptr - text));
  out += digits;
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_perfetto_argument(std::string& out, std::string_view message, const PerfettoSequence& sequence) {
  ArgumentWriter(out, sequence).member(message, 1);
}

}  // namespace hyperion::trace
