#include <ATen/Parallel.h>

#include <algorithm>

#include "hyperion/kernels/dropout_math.h"

namespace hyperion::kernels {

template <class T>
void dropout_cpu(const T* in, T* out, int64_t count, const DropoutNumbers& numbers) {
  const int64_t blocks = (count + 3) / 4;
  at::parallel_for(0, blocks, 1 << 12, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const auto words = base::philox(numbers.key, block, numbers.step, numbers.micro_batch);
      const int64_t last = std::min<int64_t>(count, block * 4 + 4);
      for (int64_t i = block * 4; i < last; ++i) dropout_element(in, out, i, words.word[i & 3], numbers);
    }
  });
}

template void dropout_cpu(const float*, float*, int64_t, const DropoutNumbers&);
template void dropout_cpu(const Bfloat16*, Bfloat16*, int64_t, const DropoutNumbers&);
template void dropout_cpu(const Half*, Half*, int64_t, const DropoutNumbers&);

}  // namespace hyperion::kernels
