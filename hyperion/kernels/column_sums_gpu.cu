#include "hyperion/kernels/column_sums_math.h"
#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/part_sums_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kAcross = 32, kDown = 8, kBatch = 4;  // kBatch: rows under way together
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
    const int64_t step = int64_t{gridDim.y} * kDown;
    for (int64_t row = blockIdx.y * int64_t{kDown} + threadIdx.y; row < rows; row += kBatch * step) {
      if constexpr (COUNT == kWide<T>) {
        Words batch[kBatch];
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          batch[k] =
              row + k * step < rows ? load_streamed(in + (row + k * step) * columns + column) : Words{{0, 0, 0, 0}};
#pragma unroll
        for (int k = 0; k < kBatch; ++k) {
          float values[COUNT];
          to_floats<T>(batch[k], values);
#pragma unroll
          for (int i = 0; i < COUNT; ++i) mine[i] += values[i];
        }
      } else {
#pragma unroll
        for (int k = 0; k < kBatch; ++k)
          if (row + k * step < rows) mine[0] += to_float(in[(row + k * step) * columns + column]);
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
  check_launch("column_sums");
  const PartSums<T> whole{
      partial, static_cast<int32_t>(parts), 1, static_cast<int32_t>(columns), {sums, nullptr, nullptr}};
  add_parts_gpu(&whole, 1, stream);
}

template void column_sums_gpu(const float*, int64_t, int64_t, float*, float*, void*);
template void column_sums_gpu(const Bfloat16*, int64_t, int64_t, float*, Bfloat16*, void*);
template void column_sums_gpu(const Half*, int64_t, int64_t, float*, Half*, void*);

}  // namespace hyperion::kernels
