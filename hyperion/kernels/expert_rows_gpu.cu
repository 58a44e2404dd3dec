#include <type_traits>

#include "hyperion/kernels/expert_rows_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 128;  // of a token

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

// What lanes before this one hold, summed; `all`: of all lanes.
__device__ inline int32_t sum_before(int32_t mine, int lane, int32_t& all) {
  int32_t upto = mine;
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
    const int32_t below = from_below(upto, distance);
    if (lane >= distance) upto += below;
  }
  all = from_last(upto);
  return upto - mine;
}

// One block: counts become how many slots of the expert lie in blocks before, and behind them come the experts' starts.
__global__ void __launch_bounds__(1024) scan_kernel(ExpertSort sort, int64_t blocks) {
  constexpr int kEach = 8;  // neighbours a lane reads at once
  __shared__ int32_t total[kMostExperts];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  for (int32_t e = warp; e < sort.experts; e += 1024 / kLanes) {
    int32_t sum = 0;
    for (int64_t first = lane * kEach; first - lane * kEach < blocks; first += kLanes * kEach) {
      int32_t *at = sort.counts + e * blocks + first, counts[kEach], mine = 0, all;
#pragma unroll
      for (int i = 0; i < kEach; ++i) counts[i] = first + i < blocks ? at[i] : 0;
#pragma unroll
      for (int i = 0; i < kEach; ++i) mine += counts[i];
      int32_t before = sum + sum_before(mine, lane, all);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        if (first + i < blocks) at[i] = before;
        before += counts[i];
      }
      sum += all;
    }
    if (lane == 0) total[e] = sum;
  }
  __syncthreads();
  if (warp != 0) return;
  int32_t start = 0;
  for (int32_t first = 0; first < sort.experts; first += kLanes) {
    const int32_t e = first + lane, mine = e < sort.experts ? total[e] : 0;
    int32_t all;
    const int32_t begin = start + sum_before(mine, lane, all);
    start += all;
    if (e >= sort.experts) continue;
    sort.counts[sort.experts * blocks + e] = begin;
    sort.ends[e] = sort.capacity == 0 ? begin + mine : static_cast<int32_t>((e + 1) * sort.capacity);
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
struct Piece {
  std::conditional_t<COUNT == 1, T, Words> raw;
  __device__ void load(const T* from) {
    if constexpr (COUNT == 1) {
      raw = *from;
    } else {
      raw = load_streamed(from);
    }
  }
  __device__ void floats(float (&out)[COUNT]) const {
    if constexpr (COUNT == 1) {
      out[0] = to_float(raw);
    } else {
      to_floats<T>(raw, out);
    }
  }
};
template <class T, int COUNT>
__device__ inline void store_some(T* to, const float (&in)[COUNT]) {
  if constexpr (COUNT == 1) {
    store(*to, in[0]);
  } else {
    store_floats(to, in);
  }
}

// Rows and weights of the CHOICES slots from `first` on, of a token that has slots before `end`; -1: no row.
template <int CHOICES>
struct Slots {
  int64_t row[CHOICES];
  float weight[CHOICES];
  __device__ Slots(const int32_t* row_of, const float* weights, int64_t first, int64_t end) {
#pragma unroll
    for (int c = 0; c < CHOICES; ++c) {
      row[c] = first + c < end ? row_of[first + c] : -1;
      weight[c] = weights != nullptr && first + c < end ? weights[first + c] : 1.0f;
    }
  }
};

// A block reads a token once and writes all its rows, CHOICES at a time.
template <class T, int COUNT, int CHOICES, bool DOTS>
__global__ void __launch_bounds__(kThreads) spread_kernel(SpreadRows<T> r) {
  for (int64_t token = blockIdx.x; token < r.tokens; token += gridDim.x) {
    const int64_t end = (token + 1) * r.choices;
    for (int64_t first = token * r.choices; first < end; first += CHOICES) {
      const Slots<CHOICES> slots(r.row_of, r.weights, first, end);
      float dots[CHOICES] = {};
#pragma unroll 2
      for (int64_t i = threadIdx.x * COUNT; i < r.width; i += kThreads * COUNT) {
        Piece<T, COUNT> in, against[DOTS ? CHOICES : 1];
        in.load(r.in + token * r.width + i);
        if constexpr (DOTS) {
#pragma unroll
          for (int c = 0; c < CHOICES; ++c)
            if (slots.row[c] >= 0) against[c].load(r.against + slots.row[c] * r.width + i);
        }
        float x[COUNT];
        in.floats(x);
#pragma unroll
        for (int c = 0; c < CHOICES; ++c) {
          if (slots.row[c] < 0) continue;
          float out[COUNT];
          if constexpr (DOTS) {
            against[c].floats(out);
#pragma unroll
            for (int k = 0; k < COUNT; ++k) dots[c] += x[k] * out[k];
          }
#pragma unroll
          for (int k = 0; k < COUNT; ++k) out[k] = slots.weight[c] * x[k];
          store_some<T, COUNT>(r.out + slots.row[c] * r.width + i, out);
        }
      }
      if constexpr (DOTS) {
        block_sums(dots);
        if (threadIdx.x == 0) {
#pragma unroll
          for (int c = 0; c < CHOICES; ++c)
            if (first + c < end) r.dots[first + c] = dots[c];
        }
      }
    }
  }
  if (r.slot_of == nullptr) return;
  for (int64_t row = blockIdx.x; row < r.rows; row += gridDim.x) {
    if (r.slot_of[row] >= 0) continue;
    const float nothing[COUNT] = {};
    for (int64_t i = threadIdx.x * COUNT; i < r.width; i += kThreads * COUNT)
      store_some<T, COUNT>(r.out + row * r.width + i, nothing);
  }
}

template <class T, int COUNT, int CHOICES>
__global__ void __launch_bounds__(kThreads) collect_kernel(CollectRows<T> r) {
  for (int64_t token = blockIdx.x; token < r.tokens; token += gridDim.x) {
    const int64_t end = (token + 1) * r.choices;
    const Slots<CHOICES> slots(r.row_of, r.weights, token * r.choices, end);
#pragma unroll 2
    for (int64_t i = threadIdx.x * COUNT; i < r.width; i += kThreads * COUNT) {
      Piece<T, COUNT> in[CHOICES];
#pragma unroll
      for (int c = 0; c < CHOICES; ++c)
        if (slots.row[c] >= 0) in[c].load(r.in + slots.row[c] * r.width + i);
      float sum[COUNT] = {}, x[COUNT];
      const auto add = [&](const Piece<T, COUNT>& piece, float weight) {
        piece.floats(x);
#pragma unroll
        for (int k = 0; k < COUNT; ++k) sum[k] += weight * x[k];
      };
#pragma unroll
      for (int c = 0; c < CHOICES; ++c)
        if (slots.row[c] >= 0) add(in[c], slots.weight[c]);
      for (int64_t slot = token * r.choices + CHOICES; slot < end; ++slot) {
        const int64_t row = r.row_of[slot];
        if (row < 0) continue;
        in[0].load(r.in + row * r.width + i);
        add(in[0], r.weights != nullptr ? r.weights[slot] : 1.0f);
      }
      store_some<T, COUNT>(r.out + token * r.width + i, sum);
    }
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
  const int64_t blocks = r.tokens > 0 ? r.tokens : r.rows;  // without tokens every row is zeros
  if (blocks == 0 || r.width == 0) return;
  const auto launch = [&]<int COUNT, int CHOICES>() {
    const auto kernel =
        r.dots != nullptr ? spread_kernel<T, COUNT, CHOICES, true> : spread_kernel<T, COUNT, CHOICES, false>;
    kernel<<<grid_of(blocks), kThreads, 0, static_cast<GpuStream>(stream)>>>(r);
  };
  const bool whole = r.width % kWide<T> == 0 && aligned(r.in) && aligned(r.out) && aligned(r.against);
  if (!whole)
    launch.template operator()<1, 2>();
  else if (r.choices <= 2)
    launch.template operator()<kWide<T>, 2>();
  else
    launch.template operator()<kWide<T>, 4>();
  check_launch("spread_rows");
}

template <class T>
void collect_rows_gpu(const CollectRows<T>& r, void* stream) {
  if (r.tokens == 0 || r.width == 0) return;
  const auto launch = [&]<int COUNT, int CHOICES>() {
    collect_kernel<T, COUNT, CHOICES><<<grid_of(r.tokens), kThreads, 0, static_cast<GpuStream>(stream)>>>(r);
  };
  const bool whole = r.width % kWide<T> == 0 && aligned(r.in) && aligned(r.out);
  if (!whole)
    launch.template operator()<1, 2>();
  else if (r.choices <= 2)
    launch.template operator()<kWide<T>, 2>();
  else
    launch.template operator()<kWide<T>, 4>();
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
