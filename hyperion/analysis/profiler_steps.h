// The ProfilerSteps that a trace marks on its host.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

struct ProfilerStep {
  int64_t begin = 0, end = 0;  // nanoseconds, as the trace has them
  int64_t number = 0;          // 101 of ProfilerStep#101
};
std::vector<ProfilerStep> profiler_steps(const trace::Trace& trace);  // by begin

// The number of the last one that began until then; kNone: none had.
int64_t step_at(const std::vector<ProfilerStep>& steps, int64_t time);

}  // namespace hyperion::analysis
