#include "hyperion/trace_formats/track_event.h"

#include "hyperion/trace_formats/protobuf_reader.h"

namespace hyperion::trace {
namespace {

struct TrackEventField {
  enum : int {
    kCategoryNumber = 3,
    kAnnotation = 4,
    kType = 9,
    kNameNumber = 10,
    kTrack = 11,
    kCategory = 22,
    kName = 23,
    kCounter = 30,
    kOldFlow = 36,
    kOldLastFlow = 42,
    kRealCounter = 44,
    kFlow = 47,
    kLastFlow = 48
  };
};

constexpr size_t kMostCategories = 1024;  // bytes, of several

}  // namespace

TrackEvent read_track_event(std::string_view message, const PerfettoSequence& sequence) {
  TrackEvent event;
  ProtobufReader in(message);
  for (ProtobufField field; in.next(field);) {
    const bool bytes = field.is_bytes();
    const auto add_category = [&](const std::string& category) {
      event.category += (event.category.empty() ? "" : ",") + category;
      if (event.category.size() > category.size() && event.category.size() > kMostCategories)
        throw ProtobufFault{"an event has too many categories", field.bytes.data()};
    };
    switch (field.number) {
      case TrackEventField::kType:
        if (!bytes) event.type = field.value;
        break;
      case TrackEventField::kTrack:
        if (!bytes) event.track = field.value;
        break;
      case TrackEventField::kNameNumber:
        if (!bytes) event.name = sequence.names.text(field.value);
        break;
      case TrackEventField::kName:
        if (bytes) event.name = repaired_utf8(field.bytes);
        break;
      case TrackEventField::kCategoryNumber:
        if (!bytes) add_category(sequence.categories.text(field.value));
        break;
      case TrackEventField::kCategory:
        if (bytes) add_category(repaired_utf8(field.bytes));
        break;
      case TrackEventField::kAnnotation:
        if (bytes) event.annotations.push_back(field.bytes);
        break;
      case TrackEventField::kCounter:
        if (!bytes) event.value = static_cast<double>(static_cast<int64_t>(field.value));
        break;
      case TrackEventField::kRealCounter:
        if (!bytes) event.value = field.real();
        break;
      case TrackEventField::kFlow:
      case TrackEventField::kOldFlow:
      case TrackEventField::kLastFlow:
      case TrackEventField::kOldLastFlow:
        if (!bytes)
          event.flows.emplace_back(
              field.value, field.number == TrackEventField::kLastFlow || field.number == TrackEventField::kOldLastFlow);
        break;
      default:
        break;
    }
  }
  return event;
}

}  // namespace hyperion::trace
