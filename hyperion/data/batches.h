// Batches in a fixed order, and the cursor that says where we are: samples taken so far, whatever the batch size or
// ranks.
#pragma once
#include <cstdint>
#include <vector>

#include "hyperion/data/source.h"

namespace hyperion::data {

struct Cursor {
  int64_t samples = 0;
};

// The next `batch` samples of length + 1 tokens each, row after row; advances the cursor. Epochs follow each other,
// each in an order of its own.
std::vector<int64_t> next_batch(const Source& source, Cursor& cursor, int64_t batch, int64_t length, uint64_t seed);

}  // namespace hyperion::data
