#include "hyperion/trace_formats/perfetto_sequence.h"

#include "hyperion/text/unicode.h"
#include "hyperion/trace_formats/protobuf_reader.h"

namespace hyperion::trace {
namespace {

// EventName, EventCategory, DebugAnnotationName and InternedString have the same two fields.
void read_text(std::string_view message, PerfettoTexts& into, StringPool& texts) {
  uint64_t number = 0;
  std::string_view text;
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (field.number == 1 && field.is_number()) number = field.value;
    if (field.number == 2 && field.is_bytes()) text = field.bytes;
  }
  const bool valid = text::valid_prefix(text) == text.size();
  into.add(number, texts[texts.add(valid ? text : std::string_view(repaired_utf8(text)))]);
}

}  // namespace

std::string repaired_utf8(std::string_view text) {
  std::string repaired;
  for (;;) {
    const size_t good = text::valid_prefix(text);
    repaired += text.substr(0, good);
    if (good == text.size()) return repaired;
    repaired += "\xef\xbf\xbd";
    text.remove_prefix(good + 1);
  }
}

void PerfettoSequence::clear() {
  names.clear();
  categories.clear();
  keys.clear();
  strings.clear();
  clock = track = 0;
}

void PerfettoSequence::read_defaults(std::string_view message) {
  of_sdk = true;
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (field.number == 58 && field.is_number()) clock = field.value;
    if (field.number != 11 || !field.is_bytes()) continue;
    ProtobufReader of_events(field.bytes);
    for (ProtobufField inner; of_events.next(inner);)
      if (inner.number == 11 && inner.is_number()) track = inner.value;
  }
}

void PerfettoSequence::read_interned(std::string_view message, StringPool& texts) {
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    if (!field.is_bytes()) continue;
    if (field.number == 1) read_text(field.bytes, categories, texts);
    if (field.number == 2) read_text(field.bytes, names, texts);
    if (field.number == 3) read_text(field.bytes, keys, texts);
    if (field.number == 29) read_text(field.bytes, strings, texts);
  }
}

}  // namespace hyperion::trace
