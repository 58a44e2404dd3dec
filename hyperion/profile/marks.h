// Spans as ranges of NVTX or roctx, so that profilers from outside show them: Nsight Systems and Compute, rocprofv3.
#pragma once
#include <functional>
#include <string>

namespace hyperion::profile {

// Whether such a profiler has started this process, or HYPERION_MARKS=1 says so; with 0 they are not. `variable`: of
// the environment, empty where it is not there. Throws ConfigError for another value.
bool marks_asked_for(const std::function<std::string(const char*)>& variable);

// From now on, where they are asked for and this build has a GPU's library that knows ranges.
void mark_spans_where_asked();

}  // namespace hyperion::profile
