// The raw entry points of rotary positions on packed queries, keys and values, and of packing their gradients.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::blocks {

// cosines and sines: fp32 [positions, head width / 2]; the row of a token is token % positions, so that a table may
// serve one sequence or every token of the batch. Null: nothing turns.
struct Rotation {
  const float *cosines, *sines;
  int64_t positions;
};

// [tokens, heads x width]
template <class T>
struct PackedHeads {
  T* data;
  int64_t tokens, heads, width;
};
// The first `rotated` heads turn, in place.
template <class T>
void rotate_heads_gpu(const PackedHeads<T>& packed, int64_t rotated, const Rotation& rotation, void* stream);

// One tensor of [tokens, heads, width], by where it lies; `width` elements of a head lie together.
template <class T>
struct HeadGradient {
  const T* data;
  int64_t heads, batch_stride, length_stride, head_stride;
};

// Gradients of queries, keys and values into one [tokens, heads in all x width]; those of queries and keys turn back.
// sums, where not null: the packed gradient summed over the tokens, a bias's gradient; `partial` then has room for
// pack_heads_parts(tokens) x heads in all x width floats. Where they come in the same pass they are left there in
// parts, and this tells how many; 0: they are whole.
template <class T>
struct PackHeads {
  HeadGradient<T> parts[3];  // of queries, keys and values
  T* packed;
  int64_t batch, length, width;
  T* sums;
  float* partial;
};
template <class T>
int64_t pack_heads_gpu(const PackHeads<T>& heads, const Rotation& rotation, void* stream);
int64_t pack_heads_parts(int64_t tokens);  // at most

}  // namespace hyperion::blocks
