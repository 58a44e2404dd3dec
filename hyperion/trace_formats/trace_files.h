// The traces that a path names.
#pragma once
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::trace {

struct TraceName {
  base::Path path;
  size_t process = 0;  // of a database that holds several
};

// A file itself; of a folder its *.htrace, *.json, *.json.gz, *.json.zst, *.pftrace, *.perfetto-trace and databases of
// traces (*.sqlite, *.db), in the order of their names, or those of traces/ in it where it has one; of a run's own
// traces the newest (run_trace.h). A database that holds several processes is so many traces. Throws ConfigError where
// there is none.
std::vector<TraceName> trace_files(const base::Path& path);

}  // namespace hyperion::trace
