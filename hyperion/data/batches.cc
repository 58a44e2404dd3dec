#include "hyperion/data/batches.h"

#include "hyperion/data/order.h"

namespace hyperion::data {

std::vector<int64_t> next_batch(const Source& source, Cursor& cursor, int64_t batch, int64_t length, uint64_t seed) {
  std::vector<int64_t> tokens(batch * (length + 1));
  const int64_t count = source.samples();
  for (int64_t row = 0; row < batch; ++row, ++cursor.samples) {
    const int64_t sample = shuffled(cursor.samples % count, count, seed, cursor.samples / count);
    source.read(sample, std::span(tokens).subspan(row * (length + 1), length + 1));
  }
  return tokens;
}

}  // namespace hyperion::data
