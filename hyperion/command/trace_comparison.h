// Two recordings beside each other: `trace diff` and `compare` of traces.
#pragma once
#include <string>

#include "hyperion/analysis/trace_diff.h"

namespace hyperion::cli {

struct TraceComparison {
  std::string before, after;  // a file, a folder with one a rank, or a run
  analysis::DiffOptions judge = {};
  analysis::AnalysisOptions how = {};
  int64_t top = 20, threads = 0;  // rows of the table; that read (0: by the cores)
  bool json = false;
};

// Prints what differs. Returns the exit code: 1 where something became slower. Throws ConfigError where a side has no
// kernels.
int compare_traces(const TraceComparison& options);

}  // namespace hyperion::cli
