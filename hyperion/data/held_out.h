// Which records of one stream are kept for validation.
#pragma once
#include <cmath>
#include <cstdint>

#include "hyperion/base/random.h"

namespace hyperion::data {

// Of every 1 / part records one, at a place of its own.
inline bool is_held_out(int64_t record, double part) {
  const auto stride = static_cast<int64_t>(std::llround(1 / part));
  const auto place = base::random_below(base::stream_key(0, "prepare.validation"),
                                        static_cast<uint64_t>(record / stride), static_cast<uint64_t>(stride));
  return record % stride == static_cast<int64_t>(place);
}

}  // namespace hyperion::data
