// The raw entry points of putting two parts of attention together.
#pragma once
#include <cstdint>
#include <limits>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::blocks {

// Of a row what counts of either part, and the logarithm of both sums of exponentials.
struct MergedRow {
  float own, more, sum;
};
// `exp` and `log1p`: the device's own.
template <class Exp, class Log1p>
constexpr MergedRow merged_row(float own, float more, Exp exp, Log1p log1p) {
  const float largest = own > more ? own : more, other = own > more ? more : own;
  if (largest == -std::numeric_limits<float>::infinity()) return {0, 0, largest};  // neither sees a key so far
  const float sum = largest + log1p(exp(other - largest));
  return {exp(own - sum), exp(more - sum), sum};
}

// Where row (batch, head, query) of a tensor begins.
struct RowStrides {
  int64_t batch, head, query;
};

// output = its share of output + the other share of more; sums: of both. [batch, heads, queries, width], the width
// alone contiguous.
template <class T>
struct MergeParts {
  float *output, *sums;
  const T* more;
  const float* more_sums;
  RowStrides of_output, of_sums, of_more, of_more_sums;
  int64_t batch, heads, queries, width;
  constexpr int64_t rows() const { return batch * heads * queries; }
};
template <class T>
void merge_parts_cpu(const MergeParts<T>& parts);
template <class T>
void merge_parts_gpu(const MergeParts<T>& parts, void* stream);

#if defined(__CUDACC__) || defined(__HIPCC__)
__host__ __device__
#endif
    constexpr int64_t
    offset_of(const RowStrides& strides, int64_t row, int64_t heads, int64_t queries) {
  const int64_t query = row % queries, pair = row / queries;
  return pair / heads * strides.batch + pair % heads * strides.head + query * strides.query;
}

}  // namespace hyperion::blocks
