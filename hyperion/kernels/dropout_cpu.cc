#include <ATen/Parallel.h>

#include <algorithm>

#include "hyperion/kernels/dropout_math.h"

namespace hyperion::kernels {

// Neighbours here need not be neighbours in the whole: the words of the last element are kept as long as they serve.
template <class T>
void dropout_shard_cpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers) {
  at::parallel_for(0, tensors.rows * tensors.width, 1 << 15, [&](int64_t begin, int64_t end) {
    int64_t block = -1;
    base::RandomWords words{};
    for (int64_t i = begin; i < end; ++i) {
      const int64_t element = numbers.elements.whole_element(i);
      if (element / kDropoutShare != block) {
        block = element / kDropoutShare;
        words = dropout_words(numbers, static_cast<uint64_t>(block), numbers.step);
      }
      dropout_element_of(tensors, i, dropout_bits(words, static_cast<int>(element % kDropoutShare)), numbers);
    }
  });
}

template <class T>
void dropout_cpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers) {
  const int64_t count = tensors.rows * tensors.width, blocks = (count + kDropoutShare - 1) / kDropoutShare;
  if (!numbers.elements.whole()) return dropout_shard_cpu(tensors, numbers);
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
