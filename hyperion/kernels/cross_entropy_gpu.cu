// A block a row: once for maximum and sum together, once more (from the cache) for the gradients.
#include "hyperion/kernels/cross_entropy_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 512;

// A maximum and the sum of exponentials below it.
struct Peak {
  float top = -3.4e38f, sum = 0;  // finite, so that a logit of -inf adds nothing
  __device__ void add(float value) {
    if (value > top) {
      sum = sum * __expf(top - value) + 1.0f;
      top = value;
    } else {
      sum += __expf(value - top);
    }
  }
};

template <class T, bool WHOLE>
__global__ void __launch_bounds__(kThreads) cross_entropy_kernel(CrossEntropyRows<T> r) {
  constexpr int kCount = WHOLE ? kWide<T> : 1;
  const int64_t row = blockIdx.x, target = r.targets[row];
  T* logits = r.logits + row * r.classes;
  if (target == r.ignored) {
    if (threadIdx.x == 0) r.losses[row] = 0;
    if (!r.gradients) return;
    for (int64_t i = threadIdx.x; i < r.classes; i += kThreads) store(logits[i], 0.0f);
    return;
  }
  Peak mine;
  for (int64_t at = int64_t{threadIdx.x} * kCount; at < r.classes; at += int64_t{kThreads} * kCount) {
    if constexpr (WHOLE) {
      float values[kCount];
      load_floats(logits + at, values);
      float top = values[0];
#pragma unroll
      for (int i = 1; i < kCount; ++i) top = fmaxf(top, values[i]);
      if (top > mine.top) {
        mine.sum *= __expf(mine.top - top);
        mine.top = top;
      }
#pragma unroll
      for (int i = 0; i < kCount; ++i) mine.sum += __expf(values[i] - mine.top);
    } else {
      mine.add(to_float(logits[at]));
    }
  }
  const float top = block_max(mine.top);
  float sum[1] = {mine.sum * expf(mine.top - top)};
  const float at_target = to_float(logits[target]);
  block_sums(sum);
  if (threadIdx.x == 0) r.losses[row] = top + logf(sum[0]) - at_target;
  if (!r.gradients) return;
  __syncthreads();  // every thread has read the target's logit
  const float scale = 1.0f / sum[0];
  for (int64_t at = int64_t{threadIdx.x} * kCount; at < r.classes; at += int64_t{kThreads} * kCount) {
    if constexpr (WHOLE) {
      float values[kCount];
      load_floats(logits + at, values);
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[i] = __expf(values[i] - top) * scale - (at + i == target ? 1.0f : 0.0f);
      store_floats(logits + at, values);
    } else {
      store(logits[at], expf(to_float(logits[at]) - top) * scale - (at == target ? 1.0f : 0.0f));
    }
  }
}

}  // namespace

template <class T>
void cross_entropy_gpu(const CrossEntropyRows<T>& rows, void* stream) {
  if (rows.rows == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  const auto blocks = static_cast<unsigned>(rows.rows);
  if (rows.classes % kWide<T> == 0 && aligned(rows.logits)) {
    cross_entropy_kernel<T, true><<<blocks, kThreads, 0, queue>>>(rows);
  } else {
    cross_entropy_kernel<T, false><<<blocks, kThreads, 0, queue>>>(rows);
  }
  check_launch("cross_entropy");
}

template void cross_entropy_gpu(const CrossEntropyRows<float>&, void*);
template void cross_entropy_gpu(const CrossEntropyRows<Bfloat16>&, void*);
template void cross_entropy_gpu(const CrossEntropyRows<Half>&, void*);

}  // namespace hyperion::kernels
