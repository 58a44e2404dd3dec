// The second half of sums over rows: what blocks left as parts, added up in a fixed order. For .cu files only.
#pragma once
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {

// partial: [parts, sections x width]; the sums of section s go to out[s] (null: not wanted), `width` each.
template <class T>
struct PartSums {
  const float* partial;
  int64_t parts, sections, width;
  T* out[3];
};

constexpr int kPartAcross = 32, kPartDown = 32, kPartBatch = 8;

// A thread takes every kPartDown-th part of its column, kPartBatch of them under way together.
template <class T>
static __global__ void __launch_bounds__(kPartAcross* kPartDown) add_parts_kernel(PartSums<T> sums) {
  __shared__ float of_threads[kPartDown][kPartAcross + 1];
  wait_for_one_ahead();
  const int64_t column = blockIdx.x * int64_t{kPartAcross} + threadIdx.x, columns = sums.sections * sums.width;
  float sum = 0;
  if (column < columns)
    for (int64_t first = threadIdx.y; first < sums.parts; first += kPartBatch * kPartDown) {
      float batch[kPartBatch];
#pragma unroll
      for (int i = 0; i < kPartBatch; ++i) {
        const int64_t part = first + i * kPartDown;
        batch[i] = part < sums.parts ? sums.partial[part * columns + column] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kPartBatch; ++i) sum += batch[i];
    }
  of_threads[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Turned over: a warp adds up one column.
  const float total = warp_sum(of_threads[threadIdx.x][threadIdx.y]);
  const int64_t mine = blockIdx.x * int64_t{kPartAcross} + threadIdx.y;
  if (threadIdx.x != 0 || mine >= columns) return;
  const int64_t section = mine / sums.width;
  T* out = section == 0 ? sums.out[0] : section == 1 ? sums.out[1] : sums.out[2];
  if (out != nullptr) store(out[mine - section * sums.width], total);
}

// Queued behind the kernel that leaves the parts.
template <class T>
static void add_parts(const PartSums<T>& sums, GpuStream stream) {
  const auto blocks = static_cast<unsigned>((sums.sections * sums.width + kPartAcross - 1) / kPartAcross);
  if (blocks == 0) return;
  launch_overlapping(add_parts_kernel<T>, blocks, dim3(kPartAcross, kPartDown), 0, stream, sums);
  check_launch("add_parts");
}

}  // namespace hyperion::kernels
