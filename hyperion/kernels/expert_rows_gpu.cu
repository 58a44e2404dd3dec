#include "hyperion/kernels/expert_rows_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 128;  // of a row

// counts[expert][block]: how many of the block's slots are the expert's.
__global__ void __launch_bounds__(kSlotsABlock) count_kernel(ExpertSort sort) {
  extern __shared__ int32_t found[];
  for (int32_t e = threadIdx.x; e < sort.experts; e += kSlotsABlock) found[e] = 0;
  __syncthreads();
  const int64_t slot = blockIdx.x * int64_t{kSlotsABlock} + threadIdx.x;
  if (slot < sort.slots) atomicAdd(&found[sort.chosen[slot]], 1);  // whole numbers: the same in any order
  __syncthreads();
  for (int32_t e = threadIdx.x; e < sort.experts; e += kSlotsABlock)
    sort.counts[e * int64_t{gridDim.x} + blockIdx.x] = found[e];
}

__device__ inline int32_t from_below(int32_t value, int distance) {
#ifdef __HIPCC__
  return __shfl_up(value, distance, kLanes);
#else
  return __shfl_up_sync(0xffffffffu, value, distance, kLanes);
#endif
}
__device__ inline int32_t from_last(int32_t value) {
#ifdef __HIPCC__
  return __shfl(value, kLanes - 1, kLanes);
#else
  return __shfl_sync(0xffffffffu, value, kLanes - 1, kLanes);
#endif
}

// One block: counts become how many slots of the expert lie in blocks before, and behind them come the experts' starts.
__global__ void __launch_bounds__(1024) scan_kernel(ExpertSort sort, int64_t blocks) {
  __shared__ int32_t total[kMostExperts];
  const int lane = threadIdx.x % kLanes;
  for (int32_t e = threadIdx.x / kLanes; e < sort.experts; e += 1024 / kLanes) {
    int32_t sum = 0;
    for (int64_t first = 0; first < blocks; first += kLanes) {
      int32_t* at = sort.counts + e * blocks + first + lane;
      const int32_t mine = first + lane < blocks ? *at : 0;
      int32_t upto = mine;
#pragma unroll
      for (int distance = 1; distance < kLanes; distance *= 2) {
        const int32_t below = from_below(upto, distance);
        if (lane >= distance) upto += below;
      }
      if (first + lane < blocks) *at = sum + upto - mine;
      sum += from_last(upto);
    }
    if (lane == 0) total[e] = sum;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  int32_t start = 0;
  for (int32_t e = 0; e < sort.experts; ++e) {
    sort.counts[sort.experts * blocks + e] = start;
    start += total[e];
    sort.ends[e] = sort.capacity == 0 ? start : static_cast<int32_t>((e + 1) * sort.capacity);
  }
}

__global__ void __launch_bounds__(kSlotsABlock) place_kernel(ExpertSort sort) {
  __shared__ int32_t experts[kSlotsABlock];
  const int64_t slot = blockIdx.x * int64_t{kSlotsABlock} + threadIdx.x;
  const int32_t mine = slot < sort.slots ? static_cast<int32_t>(sort.chosen[slot]) : -1;
  experts[threadIdx.x] = mine;
  __syncthreads();
  if (mine < 0) return;
  int32_t earlier = 0;
  for (int i = 0; i < static_cast<int>(threadIdx.x); ++i) earlier += experts[i] == mine ? 1 : 0;
  const int64_t blocks = gridDim.x;
  const int64_t row = row_of_turn(sort, mine, sort.counts[sort.experts * blocks + mine],
                                  sort.counts[mine * blocks + blockIdx.x] + int64_t{earlier});
  sort.row_of[slot] = static_cast<int32_t>(row);
  if (row >= 0) sort.slot_of[row] = static_cast<int32_t>(slot);
}

// COUNT elements at once: 16 bytes, or one.
template <class T, int COUNT>
__device__ inline void load_some(const T* from, float (&out)[COUNT]) {
  if constexpr (COUNT == 1) {
    out[0] = to_float(*from);
  } else {
    load_floats(from, out);
  }
}
template <class T, int COUNT>
__device__ inline void store_some(T* to, const float (&in)[COUNT]) {
  if constexpr (COUNT == 1) {
    store(*to, in[0]);
  } else {
    store_floats(to, in);
  }
}

template <class T, int COUNT>
__global__ void __launch_bounds__(kThreads) spread_kernel(SpreadRows<T> r) {
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    const int64_t slot = r.slot_of[row];
    const float weight = slot < 0 ? 0.0f : r.weights != nullptr ? r.weights[slot] : 1.0f;
    const T* in = r.in + (slot < 0 ? 0 : slot / r.choices) * r.width;
    float dot[1] = {0};
    for (int64_t i = threadIdx.x * COUNT; i < r.width; i += kThreads * COUNT) {
      float x[COUNT] = {}, other[COUNT];
      if (slot >= 0) {
        load_some<T, COUNT>(in + i, x);
        if (r.dots != nullptr) {
          load_some<T, COUNT>(r.against + row * r.width + i, other);
#pragma unroll
          for (int k = 0; k < COUNT; ++k) dot[0] += x[k] * other[k];
        }
#pragma unroll
        for (int k = 0; k < COUNT; ++k) x[k] *= weight;
      }
      store_some<T, COUNT>(r.out + row * r.width + i, x);
    }
    if (r.dots == nullptr) continue;
    block_sums(dot);  // by every thread of the block, whether or not the row has a slot
    if (threadIdx.x == 0 && slot >= 0) r.dots[slot] = dot[0];
  }
}

template <class T, int COUNT>
__global__ void __launch_bounds__(kThreads) collect_kernel(CollectRows<T> r) {
  for (int64_t token = blockIdx.x; token < r.tokens; token += gridDim.x)
    for (int64_t i = threadIdx.x * COUNT; i < r.width; i += kThreads * COUNT) {
      float sum[COUNT] = {};
      for (int64_t slot = token * r.choices; slot < (token + 1) * r.choices; ++slot) {
        const int64_t row = r.row_of[slot];
        if (row < 0) continue;
        const float weight = r.weights != nullptr ? r.weights[slot] : 1.0f;
        float x[COUNT];
        load_some<T, COUNT>(r.in + row * r.width + i, x);
#pragma unroll
        for (int k = 0; k < COUNT; ++k) sum[k] += weight * x[k];
      }
      store_some<T, COUNT>(r.out + token * r.width + i, sum);
    }
}

unsigned grid_of(int64_t rows) { return static_cast<unsigned>(rows < (int64_t{1} << 20) ? rows : int64_t{1} << 20); }

}  // namespace

void sort_by_expert_gpu(const ExpertSort& sort, void* stream) {
  const auto queue = static_cast<GpuStream>(stream);
  const int64_t blocks = expert_sort_blocks(sort.slots);
  if (blocks > 0)
    count_kernel<<<static_cast<unsigned>(blocks), kSlotsABlock, sort.experts * sizeof(int32_t), queue>>>(sort);
  scan_kernel<<<1, 1024, 0, queue>>>(sort, blocks);
  if (blocks > 0) place_kernel<<<static_cast<unsigned>(blocks), kSlotsABlock, 0, queue>>>(sort);
  check_launch("sort_by_expert");
}

template <class T>
void spread_rows_gpu(const SpreadRows<T>& r, void* stream) {
  if (r.rows == 0 || r.width == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  if (r.width % kWide<T> == 0 && aligned(r.in) && aligned(r.out) && aligned(r.against)) {
    spread_kernel<T, kWide<T>><<<grid_of(r.rows), kThreads, 0, queue>>>(r);
  } else {
    spread_kernel<T, 1><<<grid_of(r.rows), kThreads, 0, queue>>>(r);
  }
  check_launch("spread_rows");
}

template <class T>
void collect_rows_gpu(const CollectRows<T>& r, void* stream) {
  if (r.tokens == 0 || r.width == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  if (r.width % kWide<T> == 0 && aligned(r.in) && aligned(r.out)) {
    collect_kernel<T, kWide<T>><<<grid_of(r.tokens), kThreads, 0, queue>>>(r);
  } else {
    collect_kernel<T, 1><<<grid_of(r.tokens), kThreads, 0, queue>>>(r);
  }
  check_launch("collect_rows");
}

#define HYPERION_ROWS(T)                                      \
  template void spread_rows_gpu(const SpreadRows<T>&, void*); \
  template void collect_rows_gpu(const CollectRows<T>&, void*);
HYPERION_ROWS(float)
HYPERION_ROWS(Bfloat16)
HYPERION_ROWS(Half)
#undef HYPERION_ROWS

}  // namespace hyperion::kernels
