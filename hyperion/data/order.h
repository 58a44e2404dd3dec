// The order of samples: a function of the seed and a position alone, one index at a time.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/base/random.h"

namespace hyperion::data {

// The sample that stands at `position` of the epoch's order; a bijection of [0, count). By a Feistel network over the
// next power of four, walked until it falls inside.
int64_t shuffled(int64_t position, int64_t count, uint64_t seed, int64_t epoch);

// What all positions of a run hold: samples of one set, epoch after epoch, each in an order of its own; or of several
// sets by their weights, each with epochs of its own.
class Order {
 public:
  struct Drawn {
    int64_t index, epoch;  // the index counts on from set to set
  };
  // `counts`: samples of each set, none of them 0. `weights`: as many, or none: then by their counts.
  Order(std::vector<int64_t> counts, std::vector<double> weights, uint64_t seed);
  Drawn at(int64_t position) const;
  int64_t samples() const;  // of all sets

 private:
  std::vector<int64_t> counts_, begins_, slots_;  // slots_: of each set in every kCycle positions
  base::StreamKey mixture_;
  std::vector<base::StreamKey> keys_;
};

}  // namespace hyperion::data
