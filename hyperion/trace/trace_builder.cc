#include "hyperion/trace/trace_builder.h"

#include <charconv>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/text/json_text.h"
#include "hyperion/trace/json_scan.h"

namespace hyperion::trace {
namespace {

// The id of a flow stands outside of its arguments.
int64_t flow_id(std::string_view value) {
  int64_t id = kNone;
  std::from_chars(value.data(), value.data() + value.size(), id);
  return id;
}

}  // namespace

void TraceBuilder::add(const NewEvent& event) {
  Trace::Event row;
  row.name = trace_.names.add(event.name);
  row.type = trace_.add_type(event.phase, event.category);
  row.begin = event.begin;
  row.duration = event.duration;
  packer_.begin();
  try {
    if (!event.members.empty()) {
      const auto object = "{" + std::string(event.members) + "}";
      for (const auto& member : text::json_members(object)) {
        packer_.add(member.key, member.value);
        if (member.key == "id" && trace_.types[row.type].category == Category::flow)
          row.correlation = flow_id(member.value);
      }
    }
    const auto packed = packer_.finish();
    const auto& known = packer_.known();
    if (known.correlation != kNone) row.correlation = known.correlation;
    row.external = known.external;
    row.track = trace_.add_track({std::string(event.pid), std::string(event.tid), known.device, known.stream});
    trace_.append(row, packed);
  } catch (const ScanFault& fault) {
    throw base::CorruptError(base::format("an event's fields are not JSON ({}), {}", fault.what, trace_.facts.path));
  } catch (const text::JsonError& error) {
    throw base::CorruptError(base::format("an event's fields are not JSON ({}), {}", error.what, trace_.facts.path));
  }
}

}  // namespace hyperion::trace
