// How far the clocks of a job's ranks are apart, told from when the same collectives began and ended on each.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/analysis/matched_collectives.h"

namespace hyperion::analysis {

struct ClockOffset {
  bool known = false;       // a chain of collectives leads to the first rank
  int64_t nanoseconds = 0;  // to take from the rank's times, so that they are on the first rank's clock
  int64_t uncertainty =
      0;  // nanoseconds, about: how far ends still differ from the others', as a median, by the root of their count
  int64_t collectives = 0;  // that it was told from
};

// By rank; the first one's is 0. A collective that waits for all cannot end on one rank before it began on every other,
// and its ends nearly coincide: medians of their differences, within what the begins allow, over all pairs of ranks
// that share groups, adjusted together.
std::vector<ClockOffset> clock_offsets(const std::vector<const RankCollectives*>& ranks, const JobCollectives& job);

}  // namespace hyperion::analysis
