#include "hyperion/trace_formats/read_any_trace.h"

#include "hyperion/trace_formats/perfetto_reader.h"
#include "hyperion/trace_formats/sqlite_trace.h"

namespace hyperion::trace {

Trace read_any_trace(const TraceName& name, const ReadOptions& options) {
  if (is_sqlite_file(name.path)) return read_sqlite_trace(name.path, name.process, options.progress);
  if (is_perfetto_file(name.path)) return read_perfetto(name.path, options.progress);
  return read_trace(name.path, options);
}

}  // namespace hyperion::trace
