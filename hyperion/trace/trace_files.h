// The traces that a path names.
#pragma once
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::trace {

// A file itself; of a folder its *.htrace, *.json, *.json.gz, *.json.zst, *.pftrace and *.perfetto-trace, in the order
// of their names, or those of traces/ in it where it has one; of a run's own traces the newest (run_trace.h). Throws
// ConfigError where there is none.
std::vector<base::Path> trace_files(const base::Path& path);

}  // namespace hyperion::trace
