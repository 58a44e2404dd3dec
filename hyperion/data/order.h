// The order of samples in an epoch: a permutation computed from (seed, epoch) alone, one index at a time.
#pragma once
#include <cstdint>

#include "hyperion/base/random.h"

namespace hyperion::data {

// The sample that stands at `position` of the epoch's order; a bijection of [0, count). By a Feistel network over the
// next power of four, walked until it falls inside.
int64_t shuffled(int64_t position, int64_t count, uint64_t seed, int64_t epoch);

}  // namespace hyperion::data
