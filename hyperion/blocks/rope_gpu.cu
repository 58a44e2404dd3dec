#include <type_traits>

#include "hyperion/blocks/rope_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::blocks {

using namespace kernels;
namespace {

constexpr int kThreads = 128;

// One element, or 16 bytes of them, as they lie and as floats.
template <class T, int STEP>
using Raw = std::conditional_t<STEP == 1, T, Words>;

template <class T, int STEP>
__device__ inline Raw<T, STEP> load_raw(const T* from) {
  return *reinterpret_cast<const Raw<T, STEP>*>(from);
}
template <class T, int STEP>
__device__ inline void widen_raw(const Raw<T, STEP>& raw, float (&out)[STEP]) {
  if constexpr (STEP == 1) {
    out[0] = to_float(raw);
  } else {
    to_floats<T>(raw, out);
  }
}

// A thread turns `STEP` pairs (i, i + width / 2) of one place, in HEADS heads with the same cosines and sines.
// blockIdx.x: positions and pairs; y: heads; z: the batch.
template <class T, int STEP, int HEADS>
__global__ void __launch_bounds__(kThreads) rope_kernel(Rope<T> r) {
  const auto half = static_cast<uint32_t>(r.width / 2), of_head = half / STEP;
  const uint32_t item = blockIdx.x * kThreads + threadIdx.x, place = item / of_head;
  if (place >= r.length) return;
  const uint32_t pair = (item - place * of_head) * STEP, first = blockIdx.y * HEADS;
  const int64_t batch = blockIdx.z;
  const T* in = r.in + batch * r.in_strides.batch + place * r.in_strides.length + pair;
  T* out = r.out + batch * r.out_strides.batch + place * r.out_strides.length + pair;
  Raw<T, STEP> low[HEADS], high[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    if (first + h >= r.heads) continue;
    low[h] = load_raw<T, STEP>(in + (first + h) * r.in_strides.head);
    high[h] = load_raw<T, STEP>(in + (first + h) * r.in_strides.head + half);
  }
  const int64_t row = batch * r.table_batch_stride + place * r.width + pair;
  float low_c[STEP], high_c[STEP], low_s[STEP], high_s[STEP];
  widen_raw<T, STEP>(load_raw<T, STEP>(r.cosines + row), low_c);
  widen_raw<T, STEP>(load_raw<T, STEP>(r.cosines + row + half), high_c);
  widen_raw<T, STEP>(load_raw<T, STEP>(r.sines + row), low_s);
  widen_raw<T, STEP>(load_raw<T, STEP>(r.sines + row + half), high_s);
  if (r.back) {  // the matrix of each pair transposed
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const float other = -low_s[i];
      low_s[i] = -high_s[i], high_s[i] = other;
    }
  }
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    if (first + h >= r.heads) continue;
    float a[STEP], b[STEP];
    widen_raw<T, STEP>(low[h], a);
    widen_raw<T, STEP>(high[h], b);
#pragma unroll
    for (int i = 0; i < STEP; ++i) {
      const float rotated = a[i] * low_c[i] - b[i] * low_s[i];
      b[i] = b[i] * high_c[i] + a[i] * high_s[i];
      a[i] = rotated;
    }
    store_some<T, STEP>(out + (first + h) * r.out_strides.head, a);
    store_some<T, STEP>(out + (first + h) * r.out_strides.head + half, b);
  }
}

template <class T, int STEP, int HEADS>
void launch(const Rope<T>& r, GpuStream stream) {
  const int64_t items = r.length * (r.width / 2 / STEP);
  const dim3 blocks(static_cast<unsigned>((items + kThreads - 1) / kThreads),
                    static_cast<unsigned>((r.heads + HEADS - 1) / HEADS), static_cast<unsigned>(r.batch));
  rope_kernel<T, STEP, HEADS><<<blocks, kThreads, 0, stream>>>(r);
}

bool divisible(const HeadStrides& strides, int by) {
  return strides.batch % by == 0 && strides.head % by == 0 && strides.length % by == 0;
}

}  // namespace

template <class T>
void rope_gpu(const Rope<T>& r, void* stream) {
  if (r.batch * r.heads * r.length * r.width == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  constexpr int kCount = kWide<T>;
  const bool whole = r.width / 2 % kCount == 0 && aligned(r.in) && aligned(r.out) && aligned(r.cosines) &&
                     aligned(r.sines) && divisible(r.in_strides, kCount) && divisible(r.out_strides, kCount) &&
                     r.table_batch_stride % kCount == 0;
  const int64_t few = int64_t{2048} * gpu_limits().multiprocessors;  // one thread each cannot fill the GPU with these
  if (!whole) {
    launch<T, 1, 1>(r, queue);
  } else if (r.batch * r.heads * r.length * (r.width / 2 / kCount) < few) {
    launch<T, kCount, 1>(r, queue);
  } else {
    launch<T, kCount, 4>(r, queue);
  }
  check_launch("rope");
}

template void rope_gpu(const Rope<float>&, void*);
template void rope_gpu(const Rope<Bfloat16>&, void*);
template void rope_gpu(const Rope<Half>&, void*);

}  // namespace hyperion::blocks
