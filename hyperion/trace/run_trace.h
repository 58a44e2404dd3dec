// The trace of a run's own steps, from what LibTorch's profiler wrote and what the program's parts told of themselves.
#pragma once
#include "hyperion/base/files.h"
#include "hyperion/profile/span.h"

namespace hyperion::trace {

// Puts the spans among the events of the file that kineto wrote, as a process "hyperion" with a line for each thread,
// and gives it the name `to`; where that fails `kineto` is gone all the same. `clock_offset`: nanoseconds from the
// spans' clock to that of 1970. Throws CorruptError where the file has no list of events.
void finish_trace(const base::Path& kineto, const profile::RecordedSpans& spans, int64_t clock_offset,
                  const base::Path& to);

}  // namespace hyperion::trace
