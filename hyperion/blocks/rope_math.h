// The raw entry point of rotary positions on a GPU, from one tensor to another.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::blocks {

// [batch, heads, length, width] by its strides; `width` elements of a head lie together.
struct HeadStrides {
  int64_t batch, head, length;
};

// out = in rotated by tables [length, width] in T, one for all of the batch (table_batch_stride 0) or each its own;
// where `back`, the gradient of that: from the output's to the input's.
template <class T>
struct Rope {
  const T *in, *cosines, *sines;
  T* out;
  int64_t batch, heads, length, width, table_batch_stride;
  HeadStrides in_strides, out_strides;
  bool back;
};
template <class T>
void rope_gpu(const Rope<T>& rope, void* stream);

}  // namespace hyperion::blocks
