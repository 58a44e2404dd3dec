// The one door to traces of every kind.
#pragma once
#include "hyperion/trace/read_trace.h"
#include "hyperion/trace_formats/trace_files.h"

namespace hyperion::trace {

// What read_trace() reads, Perfetto's packets (perfetto_reader.h) and databases (sqlite_trace.h), told by the bytes.
Trace read_any_trace(const TraceName& name, const ReadOptions& options = {});

}  // namespace hyperion::trace
