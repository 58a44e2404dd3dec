// Traces that the command line names.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hyperion/trace/trace.h"
#include "hyperion/trace_formats/trace_files.h"

namespace hyperion::cli {

// Of a run by its name, else of what lies there.
std::vector<trace::TraceName> trace_files_of(const std::string& word);

// Read on so many threads (0: as many as there are cores, at most 8), with a progress line where it takes long.
trace::Trace read_shown(const trace::TraceName& name, int64_t threads);

// All of these, one after the other. Of several that say no rank each is of its place among them.
void read_ranks(const std::vector<std::string>& words, int64_t threads,
                const std::function<void(trace::Trace&&)>& take);

}  // namespace hyperion::cli
