#include "hyperion/data/order.h"

#include "hyperion/base/error.h"

namespace hyperion::data {

int64_t shuffled(int64_t position, int64_t count, uint64_t seed, int64_t epoch) {
  HYPERION_CHECK(position >= 0 && position < count, "a position lies inside its epoch");
  int half_bits = 1;
  while (int64_t{1} << (2 * half_bits) < count) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  const auto key = base::stream_key(seed, "data.order");
  auto value = static_cast<uint64_t>(position);
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const uint64_t mixed = base::philox(key, right, static_cast<uint32_t>(epoch), round).word[0] & mask;
      const uint64_t next = left ^ mixed;
      left = right, right = next;
    }
    value = left << half_bits | right;
  } while (value >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(value);
}

}  // namespace hyperion::data
