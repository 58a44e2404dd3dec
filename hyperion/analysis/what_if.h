// How long a step would have taken without a cause, by going through the same dependencies with other delays.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/analysis/job.h"

namespace hyperion::analysis {

enum class Cause : uint8_t {
  rank,           // what a rank takes beyond the median of the others, piece by piece
  communication,  // the part of collectives after the last rank has come
  host,           // the host's own time, and waits for it
  input,          // the feed
};

struct WhatIf {
  Cause without = Cause::communication;
  uint32_t rank = 0;  // in Job::ranks, of Cause::rank
};

// Nanoseconds of a step, from the job's first moment to its last.
double step_time(const JobGraph& graph);
double step_time_without(const JobGraph& graph, const WhatIf& what);

// "rank 3", "communication". Throws ConfigError where it is none of these or no rank of the job.
WhatIf what_if_of(const std::string& words, const Job& job);
std::string what_if_text(const WhatIf& what, const Job& job);
// All that is worth asking: communication, host, input, and each of up to eight ranks.
std::vector<WhatIf> usual_what_ifs(const Job& job);

}  // namespace hyperion::analysis
