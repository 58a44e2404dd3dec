// A trace in the formats of others.
#pragma once
#include <cstdint>
#include <string_view>

#include "hyperion/base/files.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

enum class ExportFormat { own, chrome, chrome_gzip, perfetto };
std::string_view ending_of(ExportFormat format);  // ".htrace", ".json", ".json.gz", ".pftrace"

struct Exported {
  int64_t left_out = 0;  // events for which the format has no place
};

// Beside its name, synced and renamed. Throws FileError, ConfigError in a build without the library that packs it, and
// Interrupted.
//   own: trace_file.h.
//   chrome: JSON as Kineto writes it, one event after the other with all its fields; what reads it back finds the same
//     events, arguments and facts. HTA, chrome://tracing and Perfetto's UI load it.
//   perfetto: packets of Perfetto's protobuf. Slices, instants, counters, arrows and arguments; a track a thread or
//     stream, and further ones where events of one overlap without one holding the other. Times count from 1970, or
//     from the first event where the trace does not say since when it counts.
Exported export_trace(base::FileSystem& files, const base::Path& path, const Trace& trace, ExportFormat format);

// The parts of it: text and bytes to `out`.
void write_chrome(const Trace& trace, base::WritableFile& out);
Exported write_perfetto(const Trace& trace, base::WritableFile& out);

}  // namespace hyperion::trace
