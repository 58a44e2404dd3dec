#include <ATen/Parallel.h>

#include <algorithm>

#include "hyperion/kernels/dropout_math.h"

namespace hyperion::kernels {

template <class T>
void dropout_cpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers) {
  const int64_t count = tensors.rows * tensors.width, blocks = (count + kDropoutShare - 1) / kDropoutShare;
  at::parallel_for(0, blocks, 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto words = dropout_words(numbers, block, numbers.step);
      const int64_t first = block * kDropoutShare, last = std::min<int64_t>(count, first + kDropoutShare);
      for (int64_t i = first; i < last; ++i)
        dropout_element_of(tensors, i, dropout_bits(words, static_cast<int>(i - first)), numbers);
    }
  });
}

template void dropout_cpu(const DropoutTensors<float>&, const DropoutNumbers&);
template void dropout_cpu(const DropoutTensors<Bfloat16>&, const DropoutNumbers&);
template void dropout_cpu(const DropoutTensors<Half>&, const DropoutNumbers&);

}  // namespace hyperion::kernels
