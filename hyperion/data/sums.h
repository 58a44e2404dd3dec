// Worked sums: additions written out digit by digit, as a child would, with the carry said aloud.
//   758+67: 8+7+0=15 5+6+1=12 7+0+1=08 =825
#pragma once
#include <cstdint>
#include <string>

#include "hyperion/data/source.h"

namespace hyperion::data {

struct Sum {
  int64_t a, b;
};

// The question "758+67:", then the working, the result and the end of the line.
Question worked(const Sum& sum);

// The sum number `index` of a seeded stream; held-out sums and training sums never meet: a pair belongs to one side by
// its hash.
Sum draw_sum(uint64_t seed, int64_t index, int64_t digits, bool held_out);

Split open_sums(const DataConfig& config, int64_t length, uint64_t seed);

}  // namespace hyperion::data
