// Arguments of Perfetto's events (debug annotations) as members of JSON.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "hyperion/trace_formats/perfetto_sequence.h"

namespace hyperion::trace {

constexpr size_t kMostArgumentText = size_t{4} << 20;  // of one event's arguments, as JSON

void append_json_text(std::string& out, std::string_view text);  // quoted; bytes that are no UTF-8 become U+FFFD
void append_json_real(std::string& out, double value);           // what is no number as text: "inf"

// Appends '"key": value', behind ", " where something stands already. ProtobufFault where the message is none, where it
// nests more than 32 deep, or where its JSON is longer than kMostArgumentText.
void append_perfetto_argument(std::string& out, std::string_view message, const PerfettoSequence& sequence);

}  // namespace hyperion::trace
