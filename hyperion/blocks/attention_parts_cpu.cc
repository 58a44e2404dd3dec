#include <ATen/Parallel.h>

#include <cmath>

#include "hyperion/blocks/attention_parts_math.h"

namespace hyperion::blocks {

template <class T>
void merge_parts_cpu(const MergeParts<T>& parts) {
  at::parallel_for(0, parts.rows(), 256, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto at = [&](const RowStrides& strides) { return offset_of(strides, row, parts.heads, parts.queries); };
      float& sum = parts.sums[at(parts.of_sums)];
      const auto merged = merged_row(
          sum, parts.more_sums[at(parts.of_more_sums)], [](float x) { return std::exp(x); },
          [](float x) { return std::log1p(x); });
      float* output = parts.output + at(parts.of_output);
      const T* more = parts.more + at(parts.of_more);
      for (int64_t i = 0; i < parts.width; ++i)
        output[i] = merged.own * output[i] + merged.more * kernels::to_float(more[i]);
      sum = merged.sum;
    }
  });
}

template void merge_parts_cpu(const MergeParts<float>&);
template void merge_parts_cpu(const MergeParts<kernels::Bfloat16>&);
template void merge_parts_cpu(const MergeParts<kernels::Half>&);

}  // namespace hyperion::blocks
