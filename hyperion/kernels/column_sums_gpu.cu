#include "hyperion/kernels/column_sums_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kAcross = 32, kDown = 8;
constexpr int64_t kParts = 128;

// A block takes a strip of columns and every kParts-th group of rows.
template <class T, int COUNT>
__global__ void __launch_bounds__(kAcross* kDown) strips(const T* in, int64_t rows, int64_t columns, float* partial) {
  __shared__ float sums[kDown][kAcross * COUNT + 1];
  const int64_t column = (blockIdx.x * int64_t{kAcross} + threadIdx.x) * COUNT;
  float mine[COUNT];
#pragma unroll
  for (int i = 0; i < COUNT; ++i) mine[i] = 0;
  if (column < columns) {
#pragma unroll 4
    for (int64_t row = blockIdx.y * int64_t{kDown} + threadIdx.y; row < rows; row += int64_t{gridDim.y} * kDown) {
      if constexpr (COUNT == kWide<T>) {
        float values[COUNT];
        load_floats(in + row * columns + column, values);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) mine[i] += values[i];
      } else {
        mine[0] += to_float(in[row * columns + column]);
      }
    }
  }
#pragma unroll
  for (int i = 0; i < COUNT; ++i) sums[threadIdx.y][threadIdx.x * COUNT + i] = mine[i];
  __syncthreads();
  const int thread = threadIdx.y * kAcross + threadIdx.x;
  for (int i = thread; i < kAcross * COUNT; i += kAcross * kDown) {
    const int64_t at = blockIdx.x * int64_t{kAcross} * COUNT + i;
    if (at >= columns) continue;
    float sum = 0;
#pragma unroll
    for (int d = 0; d < kDown; ++d) sum += sums[d][i];
    partial[blockIdx.y * columns + at] = sum;
  }
}

template <class T>
__global__ void add_parts(const float* partial, int64_t parts, int64_t columns, T* out) {
  __shared__ float sums[kDown][kAcross];
  const int64_t column = blockIdx.x * int64_t{kAcross} + threadIdx.x;
  float sum = 0;
  if (column < columns)
    for (int64_t part = threadIdx.y; part < parts; part += kDown) sum += partial[part * columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
#pragma unroll
  for (int i = 1; i < kDown; ++i) sum += sums[i][threadIdx.x];
  store(out[column], sum);
}

}  // namespace

int64_t column_sum_parts(int64_t rows) {
  const int64_t needed = (rows + 4 * kDown - 1) / (4 * kDown);
  return needed < 1 ? 1 : needed < kParts ? needed : kParts;
}

template <class T>
void column_sums_gpu(const T* in, int64_t rows, int64_t columns, float* partial, T* sums, void* stream) {
  if (columns == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  const auto parts = static_cast<unsigned>(column_sum_parts(rows));
  const auto strips_of = [&](int count) {
    return static_cast<unsigned>((columns + kAcross * count - 1) / (kAcross * count));
  };
  const dim3 threads(kAcross, kDown);
  if (columns % kWide<T> == 0 && aligned(in)) {
    strips<T, kWide<T>><<<dim3(strips_of(kWide<T>), parts), threads, 0, queue>>>(in, rows, columns, partial);
  } else {
    strips<T, 1><<<dim3(strips_of(1), parts), threads, 0, queue>>>(in, rows, columns, partial);
  }
  add_parts<T><<<strips_of(1), threads, 0, queue>>>(partial, parts, columns, sums);
  check_launch("column_sums");
}

template void column_sums_gpu(const float*, int64_t, int64_t, float*, float*, void*);
template void column_sums_gpu(const Bfloat16*, int64_t, int64_t, float*, Bfloat16*, void*);
template void column_sums_gpu(const Half*, int64_t, int64_t, float*, Half*, void*);

}  // namespace hyperion::kernels
