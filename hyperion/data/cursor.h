// Where a run stands in its data: samples taken so far, whatever the batch size or the number of processes.
#pragma once
#include <cstdint>

namespace hyperion::data {

struct Cursor {
  int64_t samples = 0;
};

struct Place {
  int64_t index = 0, epoch = 0;
};

// The next sample of a set of `count`; moves the cursor on. Epochs follow each other, each in an order of its own.
Place take(Cursor& cursor, int64_t count, uint64_t seed);

}  // namespace hyperion::data
