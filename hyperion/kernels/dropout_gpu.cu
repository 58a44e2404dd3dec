#include "hyperion/kernels/dropout_math.h"
#include "hyperion/kernels/gpu_runtime.h"

namespace hyperion::kernels {
namespace {

template <class T>
__global__ void dropout_kernel(const T* in, T* out, int64_t count, DropoutNumbers numbers) {
  const int64_t blocks = (count + 3) / 4;
  for (int64_t block = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; block < blocks;
       block += int64_t{gridDim.x} * blockDim.x) {
    const auto words = base::philox(numbers.key, block, numbers.step, numbers.micro_batch);
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (block * 4 + i < count) dropout_element(in, out, block * 4 + i, words.word[i], numbers);
  }
}

}  // namespace

template <class T>
void dropout_gpu(const T* in, T* out, int64_t count, const DropoutNumbers& numbers, void* stream) {
  if (count == 0) return;
  constexpr int kThreads = 256;
  dropout_kernel<<<grid_for((count + 3) / 4, kThreads), kThreads, 0, static_cast<GpuStream>(stream)>>>(in, out, count,
                                                                                                       numbers);
  check_launch("dropout");
}

template void dropout_gpu(const float*, float*, int64_t, const DropoutNumbers&, void*);
template void dropout_gpu(const Bfloat16*, Bfloat16*, int64_t, const DropoutNumbers&, void*);
template void dropout_gpu(const Half*, Half*, int64_t, const DropoutNumbers&, void*);

}  // namespace hyperion::kernels
