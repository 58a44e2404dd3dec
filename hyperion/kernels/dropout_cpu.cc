#include <ATen/Parallel.h>

#include <algorithm>

#include "hyperion/kernels/dropout_math.h"

namespace hyperion::kernels {

template <class T>
void dropout_cpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers) {
  const int64_t count = tensors.rows * tensors.width, blocks = (count + 3) / 4;
  at::parallel_for(0, blocks, 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto words = base::philox(numbers.key, block, numbers.step, numbers.micro_batch);
      const int64_t last = std::min<int64_t>(count, block * 4 + 4);
      for (int64_t i = block * 4; i < last; ++i) dropout_element_of(tensors, i, words.word[i & 3], numbers);
    }
  });
}

template void dropout_cpu(const DropoutTensors<float>&, const DropoutNumbers&);
template void dropout_cpu(const DropoutTensors<Bfloat16>&, const DropoutNumbers&);
template void dropout_cpu(const DropoutTensors<Half>&, const DropoutNumbers&);

}  // namespace hyperion::kernels
