#include "hyperion/data/cursor.h"

#include "hyperion/data/order.h"

namespace hyperion::data {

int64_t take(Cursor& cursor, int64_t count, uint64_t seed) {
  const int64_t place = cursor.samples++;
  return shuffled(place % count, count, seed, place / count);
}

}  // namespace hyperion::data
