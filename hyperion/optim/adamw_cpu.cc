#include <ATen/Parallel.h>

#include "hyperion/optim/adamw_math.h"

namespace hyperion::optim {

using kernels::Bfloat16;

template <class Weight, class Gradient>
void adamw_cpu(const AdamWArrays<Weight, Gradient>& arrays, int64_t count, const AdamWNumbers& numbers) {
  const float scale = *arrays.scale;
  at::parallel_for(0, count, 1 << 14, [&, scale](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float updated = adamw_element(arrays.master[i], kernels::to_float(arrays.gradient[i]) * scale,
                                          arrays.first[i], arrays.second[i], numbers);
      arrays.master[i] = updated;
      kernels::store(arrays.weight[i], updated);
    }
  });
}

template void adamw_cpu(const AdamWArrays<float, float>&, int64_t, const AdamWNumbers&);
template void adamw_cpu(const AdamWArrays<Bfloat16, Bfloat16>&, int64_t, const AdamWNumbers&);
template void adamw_cpu(const AdamWArrays<Bfloat16, float>&, int64_t, const AdamWNumbers&);
template void adamw_cpu(const AdamWArrays<kernels::Half, kernels::Half>&, int64_t, const AdamWNumbers&);
template void adamw_cpu(const AdamWArrays<kernels::Half, float>&, int64_t, const AdamWNumbers&);

}  // namespace hyperion::optim
