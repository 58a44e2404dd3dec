// The threads of a trace's host, each as one list of events: those of the profiler and the program's own spans, which
// number threads by themselves, put together.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

struct HostLane {
  std::string name;
  std::vector<uint32_t> events;  // numbers in the trace; an outer one before those within it
};
// Operators, calls, annotations and spans from `begin` on that began before `end`; steps themselves are left out. The
// first lane is the one that has the steps, where there are some.
std::vector<HostLane> host_lanes(const trace::Trace& trace, int64_t begin, int64_t end);

}  // namespace hyperion::analysis
