#include "hyperion/data/cursor.h"

#include "hyperion/data/order.h"

namespace hyperion::data {

Place take(Cursor& cursor, int64_t count, uint64_t seed) {
  const int64_t place = cursor.samples++;
  const int64_t epoch = place / count;
  return {shuffled(place % count, count, seed, epoch), epoch};
}

}  // namespace hyperion::data
