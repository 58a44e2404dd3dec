// The raw entry points of embeddings.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// out[token] = table[ids[token]] + positions[token % length]; an id that is not below `rows` gives NaN.
template <class T>
struct EmbeddingRows {
  const T *table, *positions;  // positions: may be null
  const int64_t* ids;
  T* out;
  int64_t tokens, length, rows, width;
};

// table[id] += the sum of dy[token] over the tokens of this id, in their order.
template <class T>
struct EmbeddingGradient {
  const T* dy;
  const int64_t* ids;
  T* table;
  int32_t* order;  // room for embedding_order_workspace numbers
  float* partial;  // room for embedding_partial_workspace numbers
  int64_t tokens, rows, width;
};
constexpr int64_t kEmbeddingChunk = 32;  // tokens that are summed by one block
constexpr int64_t embedding_order_workspace(int64_t tokens) { return 4 * tokens; }
constexpr int64_t embedding_partial_workspace(int64_t tokens, int64_t width) {
  return (tokens + kEmbeddingChunk - 1) / kEmbeddingChunk * 2 * width;
}

// positions[first + i] = the sum over texts of dy[text][i]; its other rows 0.
template <class T>
struct PositionsGradient {
  const T* dy;
  T* positions;
  int64_t texts, length, first, rows, width;
};

template <class T>
void embedding_cpu(const EmbeddingRows<T>& rows);
template <class T>
void embedding_gpu(const EmbeddingRows<T>& rows, void* stream);
template <class T>
void embedding_gradient_cpu(const EmbeddingGradient<T>& gradient);
template <class T>
void embedding_gradient_gpu(const EmbeddingGradient<T>& gradient, void* stream);
template <class T>
void positions_gradient_cpu(const PositionsGradient<T>& gradient);
template <class T>
void positions_gradient_gpu(const PositionsGradient<T>& gradient, void* stream);

}  // namespace hyperion::kernels
