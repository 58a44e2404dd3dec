#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/part_sums_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kAcross = 32, kDown = 32, kBatch = 8;

template <class T, int MOST>
struct Several {
  PartSums<T> sums[MOST];
  int32_t first_block[MOST], count;
};

// A thread takes every kDown-th part of its column, kBatch of them under way together.
template <class T, int MOST>
__global__ void __launch_bounds__(kAcross* kDown) add_parts_kernel(Several<T, MOST> all) {
  __shared__ float of_threads[kDown][kAcross + 1];
  wait_for_one_ahead();
  int which = 0;
  if constexpr (MOST > 1)
    while (which + 1 < all.count && static_cast<int32_t>(blockIdx.x) >= all.first_block[which + 1]) ++which;
  const PartSums<T>& sums = all.sums[which];
  const int32_t strip = (static_cast<int32_t>(blockIdx.x) - all.first_block[which]) * kAcross;
  const int32_t column = strip + static_cast<int32_t>(threadIdx.x), columns = sums.sections * sums.width;
  float sum = 0;
  if (column < columns)
    for (int32_t first = static_cast<int32_t>(threadIdx.y); first < sums.parts; first += kBatch * kDown) {
      float batch[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int32_t part = first + i * kDown;
        batch[i] = part < sums.parts ? sums.partial[int64_t{part} * columns + column] : 0.0f;
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) sum += batch[i];
    }
  of_threads[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Turned over: a warp adds up one column.
  const float total = warp_sum(of_threads[threadIdx.x][threadIdx.y]);
  const int32_t mine = strip + static_cast<int32_t>(threadIdx.y);
  if (threadIdx.x != 0 || mine >= columns) return;
  const int32_t section = mine / sums.width;
  store(sums.out[section][mine - section * sums.width], total);
}

template <class T, int MOST>
void launch(const PartSums<T>* sums, int count, GpuStream stream) {
  Several<T, MOST> all{};
  int32_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    all.sums[i] = sums[i], all.first_block[i] = blocks;
    blocks += (sums[i].sections * sums[i].width + kAcross - 1) / kAcross;
  }
  all.count = count;
  if (blocks == 0) return;
  launch_overlapping(add_parts_kernel<T, MOST>, static_cast<unsigned>(blocks), dim3(kAcross, kDown), 0, stream, all);
  check_launch("add_parts");
}

}  // namespace

template <class T>
void add_parts_gpu(const PartSums<T>* sums, int count, void* stream) {
  const auto queue = static_cast<GpuStream>(stream);
  if (count == 1) return launch<T, 1>(sums, 1, queue);
  for (int first = 0; first < count; first += kPartSumsAtOnce)
    launch<T, kPartSumsAtOnce>(sums + first, count - first < kPartSumsAtOnce ? count - first : kPartSumsAtOnce, queue);
}

template void add_parts_gpu(const PartSums<float>*, int, void*);
template void add_parts_gpu(const PartSums<Bfloat16>*, int, void*);
template void add_parts_gpu(const PartSums<Half>*, int, void*);

}  // namespace hyperion::kernels
