#include "hyperion/kernels/adamw_math.h"
#include "hyperion/kernels/gpu_runtime.h"

namespace hyperion::kernels {
namespace {

template <class Weight, class Gradient>
__global__ void adamw_kernel(AdamWArrays<Weight, Gradient> arrays, int64_t count, AdamWNumbers numbers) {
  const float scale = *arrays.scale;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    const float updated = adamw_element(arrays.master[i], to_float(arrays.gradient[i]) * scale, arrays.first[i],
                                        arrays.second[i], numbers);
    arrays.master[i] = updated;
    store(arrays.weight[i], updated);
  }
}

}  // namespace

template <class Weight, class Gradient>
void adamw_gpu(const AdamWArrays<Weight, Gradient>& arrays, int64_t count, const AdamWNumbers& numbers, void* stream) {
  if (count == 0) return;
  constexpr int kThreads = 256;
  adamw_kernel<<<grid_for(count, kThreads), kThreads, 0, static_cast<GpuStream>(stream)>>>(arrays, count, numbers);
  check_launch("adamw");
}

template void adamw_gpu(const AdamWArrays<float, float>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Bfloat16, Bfloat16>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Bfloat16, float>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Half, Half>&, int64_t, const AdamWNumbers&, void*);
template void adamw_gpu(const AdamWArrays<Half, float>&, int64_t, const AdamWNumbers&, void*);

}  // namespace hyperion::kernels
