// The raw entry point of matrices put together on a GPU.
#pragma once
#include <cstdint>

namespace hyperion::blocks {

// `element` bytes each, fewer than 2^32 of them; pitches from row to row, in elements.
struct RawMatrixPart {
  const void* from;
  int64_t row, column, rows, columns, pitch;
};
struct RawMatrixParts {
  void* out;
  int64_t rows, columns, pitch;
  int element;  // 2 or 4
  int count;
  RawMatrixPart parts[8];
};
void put_together_gpu(const RawMatrixParts& matrix, void* stream);

}  // namespace hyperion::blocks
