// Where a run stands in its data: one small record, the same whatever the batch size or the number of processes.
#pragma once
#include <cstdint>
#include <string_view>

namespace hyperion::data {

struct Cursor {
  int64_t samples = 0;  // taken so far: positions 0 .. samples - 1 of the run's order
  uint64_t hash = 0;    // of what they held: the sum of their sample_hash
};

// Of the bytes of a sample and the position it stands at. Hashes are added up, so that those of processes that took
// every n-th position each make the same sum as those of one.
uint64_t sample_hash(int64_t position, std::string_view bytes);

}  // namespace hyperion::data
