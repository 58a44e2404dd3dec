#include <type_traits>

#include "hyperion/kernels/expert_rows_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 128;  // of a token

// counts[expert][block]: how many of the block's slots are the expert's.
__global__ void __launch_bounds__(kSlotsABlock) count_kernel(ExpertSort sort) {
  extern __shared__ int32_t found[];
  let_next_begin();
  for (int32_t e = threadIdx.x; e < sort.experts; e += kSlotsABlock) found[e] = 0;
  __syncthreads();
  const int64_t slot = blockIdx.x * int64_t{kSlotsABlock} + threadIdx.x;
  if (slot < sort.slots && sort.chosen[slot] >= 0)
    atomicAdd(&found[sort.chosen[slot]], 1);  // whole numbers: the same in any order
  __syncthreads();
  for (int32_t e = threadIdx.x; e < sort.experts; e += kSlotsABlock)
    sort.counts[e * int64_t{gridDim.x} + blockIdx.x] = found[e];
}

__device__ inline int32_t whole_sum(int32_t value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
#ifdef __HIPCC__
    value += __shfl_xor(value, distance, kLanes);
#else
    value += __shfl_xor_sync(0xffffffffu, value, distance, kLanes);
#endif
  }
  return value;
}
// What lanes before this one hold, summed; `all`: of all lanes.
__device__ inline int32_t sum_before(int32_t mine, int lane, int32_t& all) {
  int32_t upto = mine;
#pragma unroll
  for (int distance = 1; distance < kLanes; distance *= 2) {
#ifdef __HIPCC__
    const int32_t below = __shfl_up(upto, distance, kLanes);
#else
    const int32_t below = __shfl_up_sync(0xffffffffu, upto, distance, kLanes);
#endif
    if (lane >= distance) upto += below;
  }
#ifdef __HIPCC__
  all = __shfl(upto, kLanes - 1, kLanes);
#else
  all = __shfl_sync(0xffffffffu, upto, kLanes - 1, kLanes);
#endif
  return upto - mine;
}
// Each block adds up what the blocks before it counted, and all of them: so it knows where each expert's next slot
// goes. Its warps then take turns.
__global__ void __launch_bounds__(kSlotsABlock) place_kernel(ExpertSort sort, int64_t blocks, int bits) {
  extern __shared__ int32_t next[];  // of each expert: how many slots came before
  int32_t* starts = next + sort.experts;
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int64_t slot = blockIdx.x * int64_t{kSlotsABlock} + threadIdx.x;
  const int32_t chosen = slot < sort.slots ? static_cast<int32_t>(sort.chosen[slot]) : -1;
  const bool here = chosen >= 0;
  const int32_t mine = here ? chosen : 0;
  uint32_t equal = votes(here);
  for (int bit = 0; bit < bits; ++bit) {
    const bool set = (mine >> bit & 1) != 0;
    const uint32_t have = votes(set);
    equal &= set ? have : ~have;
  }
  const uint32_t earlier = equal & ((1u << lane) - 1);
  wait_for_one_ahead();
  for (int32_t e = warp; e < sort.experts; e += kSlotsABlock / kLanes) {
    int32_t before = 0, all = 0;
    for (int64_t block = lane; block < blocks; block += kLanes) {
      const int32_t count = sort.counts[e * blocks + block];
      all += count;
      if (block < blockIdx.x) before += count;
    }
    before = whole_sum(before), all = whole_sum(all);
    if (lane == 0) next[e] = before, starts[e] = all;
  }
  __syncthreads();
  if (warp == 0) {
    int32_t start = 0;
    for (int32_t first = 0; first < sort.experts; first += kLanes) {
      const int32_t e = first + lane, count = e < sort.experts ? starts[e] : 0;
      int32_t all;
      const int32_t begin = start + sum_before(count, lane, all);
      start += all;
      if (e >= sort.experts) continue;
      starts[e] = begin;
      if (blockIdx.x == 0)
        sort.ends[e] = sort.capacity == 0 ? begin + count : static_cast<int32_t>((e + 1) * sort.capacity);
    }
  }
  int32_t turn = 0;
  for (int w = 0; w < kSlotsABlock / kLanes; ++w) {
    __syncthreads();
    if (w != warp) continue;
    if (here) turn = next[mine] + __popc(earlier);
    meet_warp();
    if (here && equal >> lane == 1) next[mine] = turn + 1;  // the last of its equals
  }
  if (!here) {
    if (slot < sort.slots) sort.row_of[slot] = -1;
    return;
  }
  const int64_t row = row_of_turn(sort, mine, starts[mine], turn);
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
      raw = load_words(from);
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

template <class T, int COUNT>
__global__ void __launch_bounds__(kThreads) collect_kernel(CollectRows<T> r) {
  for (int64_t token = blockIdx.x; token < r.tokens; token += gridDim.x)
    for (int64_t i = threadIdx.x * COUNT; i < r.width; i += kThreads * COUNT) {
      float sum[COUNT] = {};
      for (int64_t slot = token * r.choices; slot < (token + 1) * r.choices; ++slot) {
        const int64_t row = r.row_of[slot];
        if (row < 0) continue;
        const float weight = r.weights != nullptr ? r.weights[slot] : 1.0f;
        Piece<T, COUNT> piece;
        piece.load(r.in + row * r.width + i);
        float x[COUNT];
        piece.floats(x);
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
  const auto grid = static_cast<unsigned>(blocks > 0 ? blocks : 1);  // one to say where no expert's rows end
  int bits = 0;
  while ((sort.experts - 1) >> bits != 0) ++bits;
  const size_t bytes = sort.experts * sizeof(int32_t);
  if (blocks > 0) count_kernel<<<grid, kSlotsABlock, bytes, queue>>>(sort);
  launch_overlapping(place_kernel, grid, kSlotsABlock, 2 * bytes, queue, sort, blocks, bits);
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
  const auto queue = static_cast<GpuStream>(stream);
  if (r.width % kWide<T> == 0 && aligned(r.in) && aligned(r.out)) {
    collect_kernel<T, kWide<T>><<<grid_of(r.tokens), kThreads, 0, queue>>>(r);
  } else {
    collect_kernel<T, 1><<<grid_of(r.tokens), kThreads, 0, queue>>>(r);
  }
  check_launch("collect_rows");
}

template void spread_rows_gpu(const SpreadRows<float>&, void*);
template void collect_rows_gpu(const CollectRows<float>&, void*);
template void spread_rows_gpu(const SpreadRows<Bfloat16>&, void*);
template void collect_rows_gpu(const CollectRows<Bfloat16>&, void*);
template void spread_rows_gpu(const SpreadRows<Half>&, void*);
template void collect_rows_gpu(const CollectRows<Half>&, void*);

}  // namespace hyperion::kernels
