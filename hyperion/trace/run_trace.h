// The trace of a run's own steps, from what LibTorch's profiler wrote and what the program's parts told of themselves.
#pragma once
#include <functional>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/profile/span.h"
#include "hyperion/trace/trace.h"

namespace hyperion::trace {

// Where a run keeps the trace of a process that begins with this step: traces/step-101.rank-0.htrace.
base::Path trace_path(const base::Path& run, int64_t step, int rank);
// Of those that are there the newest steps', by rank; none: the folder is no run's, or it recorded none.
std::vector<base::Path> newest_recording(const base::Path& run);
// Those that begin with this step.
std::vector<base::Path> recording(const base::Path& run, int64_t step);

// Puts the spans among the events of the file that kineto wrote, as a process "hyperion" with a line for each thread,
// and keeps them as our own file, in a build without libzstd as JSON beside it. `kineto` is gone afterwards, whatever
// happened. `clock_offset`: nanoseconds from the spans' clock to that of 1970. Throws CorruptError where the file has
// no list of events.
// `told`, where given, changes what is kept of it.
using TraceChange = std::function<Trace(Trace&&)>;
void finish_trace(const base::Path& kineto, const profile::RecordedSpans& spans, int64_t clock_offset,
                  const base::Path& to, const TraceChange& told = {});
// The same without a file of it: `kineto` is gone afterwards.
Trace joined_trace(const base::Path& kineto, const profile::RecordedSpans& spans, int64_t clock_offset);

}  // namespace hyperion::trace
