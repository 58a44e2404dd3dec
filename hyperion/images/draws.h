// The random numbers of one sample: one after another, and yet a function of (seed, stream, index, round) alone.
#pragma once
#include "hyperion/base/random.h"

namespace hyperion::images {

class Draws {
 public:
  Draws(base::StreamKey key, int64_t index, int64_t round)
      : key_(key), index_(static_cast<uint64_t>(index)), round_(static_cast<uint32_t>(round)) {}

  // In (low, high).
  double uniform(double low, double high) { return low + (high - low) * base::unit_float(bits()); }
  // In [0, bound); bound in 1 .. 2^31.
  int64_t below(int64_t bound) { return static_cast<int64_t>(uint64_t{bits()} * static_cast<uint64_t>(bound) >> 32); }
  bool chance(double part) { return uniform(0, 1) < part; }

 private:
  uint32_t bits() {
    if (taken_ % 4 == 0) words_ = base::philox(key_, index_, round_, taken_ / 4);
    return words_.word[taken_++ % 4];
  }

  base::StreamKey key_;
  uint64_t index_;
  uint32_t round_, taken_ = 0;
  base::RandomWords words_{};
};

}  // namespace hyperion::images
