// The gradient of a table: where table and text are small, a warp a row looks through all ids. Else one block sorts the
// tokens by id (stable, by digits); then each block walks over as many sorted tokens as all others, sums them, and
// writes what begins and ends with it; rows of a run that reaches into other blocks' tokens are left as parts, which
// the block where the run begins adds up in a second pass.
#include "hyperion/kernels/embedding_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 128;

// 16 bytes of a row at once, or one element.
template <class T, int COUNT>
__device__ inline void load_some(const T* from, float (&out)[COUNT]) {
  if constexpr (COUNT == 1) {
    out[0] = to_float(*from);
  } else {
    load_floats_streamed(from, out);
  }
}

template <class T, int COUNT>
__global__ void __launch_bounds__(kThreads) look_up_kernel(EmbeddingRows<T> r) {
  for (int64_t token = blockIdx.x; token < r.tokens; token += gridDim.x) {
    const int64_t id = r.ids[token], place = token % r.length;
    const bool known = id >= 0 && id < r.rows;
    for (int64_t i = threadIdx.x * COUNT; i < r.width; i += kThreads * COUNT) {
      float x[COUNT], more[COUNT];
      load_some<T, COUNT>(r.table + (known ? id : 0) * r.width + i, x);
      if (r.positions != nullptr) {
        load_some<T, COUNT>(r.positions + place * r.width + i, more);
#pragma unroll
        for (int k = 0; k < COUNT; ++k) x[k] += more[k];
      }
      if (!known) {
#pragma unroll
        for (int k = 0; k < COUNT; ++k) x[k] = NAN;
      }
      store_some<T, COUNT>(r.out + token * r.width + i, x);
    }
  }
}

constexpr int kSortThreads = 1024, kSortWarps = kSortThreads / kLanes;
constexpr int kLeastBits = 5, kMostBits = 9;  // of a digit

struct IdSort {
  const int64_t* ids;
  int32_t* room;            // keys and tokens, twice in turn
  int32_t tokens, unknown;  // unknown: the key of ids that are in no row
  int bits, passes;
  // The ids and the tokens they came from after so many passes.
  __host__ __device__ int32_t* keys(int pass) const { return room + int64_t{pass % 2} * 2 * tokens; }
  __host__ __device__ int32_t* order(int pass) const { return keys(pass) + tokens; }
};

// What each thread has, summed over the threads before it.
__device__ inline int32_t sum_before(int32_t mine) {
  __shared__ int32_t of_warps[kSortWarps];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const auto upto = [&](int32_t value) {
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
#ifdef __HIPCC__
      const int32_t below = __shfl_up(value, distance, kLanes);
#else
      const int32_t below = __shfl_up_sync(0xffffffffu, value, distance, kLanes);
#endif
      if (lane >= distance) value += below;
    }
    return value;
  };
  const int32_t within = upto(mine);
  if (lane == kLanes - 1) of_warps[warp] = within;
  __syncthreads();
  if (warp == 0) of_warps[lane] = upto(of_warps[lane]);
  __syncthreads();
  return within - mine + (warp > 0 ? of_warps[warp - 1] : 0);
}

// One block. A warp has a stretch of the tokens: it counts its digits, finds where each digit of its own begins, and
// puts its tokens there 32 at a time.
__global__ void __launch_bounds__(kSortThreads) sort_kernel(IdSort sort) {
  extern __shared__ int32_t positions[];  // [warp][digit]
  constexpr int kBatch = 8;
  const int digits = 1 << sort.bits, lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
  const int32_t each = (sort.tokens + kSortThreads - 1) / kSortThreads * kLanes;
  const int64_t begin = int64_t{warp} * each;
  int32_t* mine = positions + warp * digits;
  for (int pass = 0; pass < sort.passes; ++pass) {
    const auto key_of = [&](int64_t i) {
      if (i >= sort.tokens) return sort.unknown;
      if (pass > 0) return sort.keys(pass)[i];
      const int64_t id = sort.ids[i];
      return id < 0 || id >= sort.unknown ? sort.unknown : static_cast<int32_t>(id);
    };
    const auto digit_of = [&](int32_t key) { return key >> pass * sort.bits & digits - 1; };
    for (int i = threadIdx.x; i < kSortWarps * digits; i += kSortThreads) positions[i] = 0;
    __syncthreads();
    for (int32_t first = lane; first < each; first += kBatch * kLanes) {
      int32_t keys[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) keys[k] = first + k * kLanes < each ? key_of(begin + first + k * kLanes) : 0;
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (first + k * kLanes < each && begin + first + k * kLanes < sort.tokens)
          atomicAdd(&mine[digit_of(keys[k])], 1);
    }
    __syncthreads();
    {  // from counts to positions: by digit, and of one digit by warp
      const int share = digits / kLanes, digit = threadIdx.x * share / kSortWarps;
      int32_t* at = positions + threadIdx.x * share % kSortWarps * digits + digit;
      int32_t sum = 0;
      for (int i = 0; i < share; ++i) sum += at[i * digits];
      int32_t before = sum_before(sum);
      for (int i = 0; i < share; ++i) {
        const int32_t count = at[i * digits];
        at[i * digits] = before;
        before += count;
      }
    }
    __syncthreads();
    for (int32_t first = lane; first < each; first += kBatch * kLanes) {
      int32_t keys[kBatch], tokens[kBatch];
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const int64_t i = begin + first + k * kLanes;
        const bool here = first + k * kLanes < each && i < sort.tokens;
        keys[k] = here ? key_of(i) : -1;
        tokens[k] = here && pass > 0 ? sort.order(pass)[i] : static_cast<int32_t>(i);
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        const bool here = keys[k] >= 0;
        const int digit = here ? digit_of(keys[k]) : 0;
        uint32_t equal = votes(here);
        for (int bit = 0; bit < sort.bits; ++bit) {
          const bool set = (digit >> bit & 1) != 0;
          const uint32_t have = votes(set);
          equal &= set ? have : ~have;
        }
        const int32_t place = here ? mine[digit] + __popc(equal & (1u << lane) - 1) : 0;
        meet_warp();                                              // all have read
        if (here && equal >> lane == 1) mine[digit] = place + 1;  // the last of its equals
        meet_warp();
        if (!here) continue;
        sort.keys(pass + 1)[place] = keys[k];
        sort.order(pass + 1)[place] = tokens[k];
      }
    }
    __syncthreads();
  }
}

template <class T, int COUNT>
__device__ inline void add_to_row(const EmbeddingGradient<T>& g, int32_t id, int64_t column,
                                  const float (&sum)[COUNT]) {
  if (id >= g.rows) return;
  T* at = g.table + int64_t{id} * g.width + column;
  float row[COUNT];
  load_some<T, COUNT>(at, row);
#pragma unroll
  for (int k = 0; k < COUNT; ++k) row[k] += sum[k];
  store_some<T, COUNT>(at, row);
}

// Parts: [chunk][run from before, run to the next][width].
template <int COUNT>
__device__ inline float* part_of(float* partial, int64_t chunk, int which, int64_t width, int64_t column) {
  return partial + (chunk * 2 + which) * width + column;
}

template <class T, int COUNT>
__global__ void __launch_bounds__(256) sum_chunks(EmbeddingGradient<T> g, const int32_t* keys, const int32_t* order) {
  constexpr int kChunk = kEmbeddingChunk, kBatch = 8;
  __shared__ int32_t ids[kChunk + 2], tokens[kChunk];  // ids: with one before and one behind; -1: none
  const int64_t first = int64_t{blockIdx.x} * kChunk;
  const int count = static_cast<int>(g.tokens - first < kChunk ? g.tokens - first : kChunk);
  for (int i = threadIdx.x; i < kChunk + 2; i += blockDim.x) {
    const int64_t at = first - 1 + i;
    ids[i] = at >= 0 && at < g.tokens ? keys[at] : -1;
  }
  for (int i = threadIdx.x; i < count; i += blockDim.x) tokens[i] = order[first + i];
  __syncthreads();
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * COUNT;
  if (column >= g.width) return;
  float sum[COUNT] = {};
  bool from_before = ids[0] == ids[1];
  for (int start = 0; start < count; start += kBatch) {
    float rows[kBatch][COUNT];
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
      if (start + k < count) load_some<T, COUNT>(g.dy + int64_t{tokens[start + k]} * g.width + column, rows[k]);
#pragma unroll
    for (int k = 0; k < kBatch; ++k) {
      const int i = start + k;
      if (i >= count) continue;
#pragma unroll
      for (int c = 0; c < COUNT; ++c) sum[c] += rows[k][c];
      const int32_t id = ids[i + 1];
      const bool goes_on = ids[i + 2] == id;
      if (goes_on && i + 1 < count) continue;
      if (from_before || goes_on) {
        float* part = part_of<COUNT>(g.partial, blockIdx.x, from_before ? 0 : 1, g.width, column);
#pragma unroll
        for (int c = 0; c < COUNT; ++c) part[c] = sum[c];
      } else {
        add_to_row<T, COUNT>(g, id, column, sum);
      }
      from_before = false;
#pragma unroll
      for (int c = 0; c < COUNT; ++c) sum[c] = 0;
    }
  }
}

// Chunks whose last run begins in them and goes on.
template <class T, int COUNT>
__global__ void __launch_bounds__(256) sum_parts(EmbeddingGradient<T> g, const int32_t* keys) {
  constexpr int64_t kChunk = kEmbeddingChunk;
  constexpr int kBatch = 4;
  const int64_t chunk = blockIdx.x, begin = chunk * kChunk, end = begin + kChunk;
  if (end >= g.tokens) return;
  const int32_t id = keys[end];
  if (keys[end - 1] != id || (begin > 0 && keys[begin - 1] == id)) return;
  // How many chunks the run reaches into: those whose first token is of it.
  int64_t last = chunk + 1;
  for (bool on = true; on;) {
    const int64_t mine = last + threadIdx.x % kLanes;
    const uint32_t of_run = votes(mine * kChunk < g.tokens && keys[mine * kChunk] == id);
    const int more = of_run == 0xffffffffu ? kLanes : __ffs(static_cast<int>(~of_run)) - 1;
    last += more, on = more == kLanes;
  }
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * COUNT;
  if (column >= g.width) return;
  float sum[COUNT];
#pragma unroll
  for (int c = 0; c < COUNT; ++c) sum[c] = part_of<COUNT>(g.partial, chunk, 1, g.width, column)[c];
  for (int64_t from = chunk + 1; from < last; from += kBatch) {
    float parts[kBatch][COUNT];
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
#pragma unroll
      for (int c = 0; c < COUNT; ++c)
        parts[k][c] = from + k < last ? part_of<COUNT>(g.partial, from + k, 0, g.width, column)[c] : 0.0f;
#pragma unroll
    for (int k = 0; k < kBatch; ++k)
#pragma unroll
      for (int c = 0; c < COUNT; ++c) sum[c] += parts[k][c];
  }
  add_to_row<T, COUNT>(g, id, column, sum);
}

constexpr int64_t kFewTokens = 4096, kFewPairs = 4 << 20;  // tokens, and tokens times rows, that are not worth sorting

template <class T, int COUNT>
__global__ void __launch_bounds__(kThreads) sum_rows(EmbeddingGradient<T> g) {
  constexpr int kBatch = 8;
  extern __shared__ int32_t ids[];
  const int tokens = static_cast<int>(g.tokens);
  for (int i = threadIdx.x; i < tokens; i += kThreads)
    ids[i] = g.ids[i] >= 0 && g.ids[i] < g.rows ? static_cast<int32_t>(g.ids[i]) : -1;
  __syncthreads();
  const int lane = threadIdx.x % kLanes, row = blockIdx.x * (kThreads / kLanes) + threadIdx.x / kLanes;
  const int64_t column = (int64_t{blockIdx.y} * kLanes + lane) * COUNT;
  if (row >= g.rows) return;
  float sum[COUNT] = {};
  bool any = false;
  for (int first = 0; first < tokens; first += kLanes) {
    uint32_t left = votes(first + lane < tokens && ids[first + lane] == row);
    any = any || left != 0;
    while (left != 0) {
      float rows[kBatch][COUNT];
      int count = 0;
#pragma unroll
      for (int k = 0; k < kBatch; ++k) {
        if (left == 0) continue;
        const int token = first + __ffs(static_cast<int>(left)) - 1;
        left &= left - 1, ++count;
        if (column < g.width) load_some<T, COUNT>(g.dy + token * g.width + column, rows[k]);
      }
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (k < count) {
#pragma unroll
          for (int c = 0; c < COUNT; ++c) sum[c] += rows[k][c];
        }
    }
  }
  if (any && column < g.width) add_to_row<T, COUNT>(g, row, column, sum);
}

template <class T, int COUNT>
__global__ void __launch_bounds__(256) places_kernel(PositionsGradient<T> g) {
  constexpr int kBatch = 8;
  const int64_t pieces = g.rows * g.width / COUNT, texts = g.length * g.width;
  for (int64_t piece = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; piece < pieces;
       piece += int64_t{gridDim.x} * blockDim.x) {
    const int64_t from = piece * COUNT - g.first * g.width;  // in a text
    float sum[COUNT] = {};
    for (int64_t text = 0; text < (from >= 0 && from < texts ? g.texts : 0); text += kBatch) {
      float rows[kBatch][COUNT];
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (text + k < g.texts) load_some<T, COUNT>(g.dy + (text + k) * texts + from, rows[k]);
#pragma unroll
      for (int k = 0; k < kBatch; ++k)
        if (text + k < g.texts) {
#pragma unroll
          for (int c = 0; c < COUNT; ++c) sum[c] += rows[k][c];
        }
    }
    store_some<T, COUNT>(g.positions + piece * COUNT, sum);
  }
}

unsigned grid_of(int64_t rows) { return static_cast<unsigned>(rows < (int64_t{1} << 20) ? rows : int64_t{1} << 20); }

IdSort sort_ids(const int64_t* ids, int32_t* room, int64_t tokens, int64_t rows, GpuStream stream) {
  int bits = 1;
  while (rows >> bits != 0) ++bits;  // the key of unknown ids is `rows`
  IdSort sort{
      ids, room, static_cast<int32_t>(tokens), static_cast<int32_t>(rows), 0, (bits + kMostBits - 1) / kMostBits};
  sort.bits = (bits + sort.passes - 1) / sort.passes;
  if (sort.bits < kLeastBits) sort.bits = kLeastBits;
  const size_t bytes = sizeof(int32_t) * kSortWarps << sort.bits;
  allow_shared_memory(reinterpret_cast<const void*>(sort_kernel), bytes);
  sort_kernel<<<1, kSortThreads, bytes, stream>>>(sort);
  return sort;
}

template <class T, int COUNT>
void gradient_as(const EmbeddingGradient<T>& g, GpuStream stream) {
  if (g.tokens <= kFewTokens && g.tokens * g.rows <= kFewPairs) {
    constexpr int64_t kWarps = kThreads / kLanes, kColumns = kLanes * COUNT;
    const dim3 blocks(static_cast<unsigned>((g.rows + kWarps - 1) / kWarps),
                      static_cast<unsigned>((g.width + kColumns - 1) / kColumns));
    sum_rows<T, COUNT><<<blocks, kThreads, sizeof(int32_t) * static_cast<size_t>(g.tokens), stream>>>(g);
    return;
  }
  const IdSort sort = sort_ids(g.ids, g.order, g.tokens, g.rows, stream);
  const int64_t pieces = g.width / COUNT, warps = (pieces + kLanes - 1) / kLanes,
                threads = warps < 8 ? warps * kLanes : 256;
  const dim3 blocks(static_cast<unsigned>((g.tokens + kEmbeddingChunk - 1) / kEmbeddingChunk),
                    static_cast<unsigned>((pieces + threads - 1) / threads));
  const int32_t *keys = sort.keys(sort.passes), *order = sort.order(sort.passes);
  sum_chunks<T, COUNT><<<blocks, static_cast<unsigned>(threads), 0, stream>>>(g, keys, order);
  sum_parts<T, COUNT><<<blocks, static_cast<unsigned>(threads), 0, stream>>>(g, keys);
}

}  // namespace

template <class T>
void embedding_gpu(const EmbeddingRows<T>& r, void* stream) {
  if (r.tokens == 0 || r.width == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  if (r.width % kWide<T> == 0 && aligned(r.table) && aligned(r.positions) && aligned(r.out)) {
    look_up_kernel<T, kWide<T>><<<grid_of(r.tokens), kThreads, 0, queue>>>(r);
  } else {
    look_up_kernel<T, 1><<<grid_of(r.tokens), kThreads, 0, queue>>>(r);
  }
  check_launch("embedding");
}

template <class T>
void embedding_gradient_gpu(const EmbeddingGradient<T>& g, void* stream) {
  if (g.tokens == 0 || g.width == 0) return;
  const bool whole = g.width % kWide<T> == 0 && aligned(g.dy) && aligned(g.table);
  const auto queue = static_cast<GpuStream>(stream);
  whole ? gradient_as<T, kWide<T>>(g, queue) : gradient_as<T, 1>(g, queue);
  check_launch("embedding_gradient");
}

template <class T>
void positions_gradient_gpu(const PositionsGradient<T>& g, void* stream) {
  if (g.rows == 0 || g.width == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  if (g.width % kWide<T> == 0 && aligned(g.dy) && aligned(g.positions)) {
    places_kernel<T, kWide<T>><<<grid_for(g.rows * g.width / kWide<T>, 256), 256, 0, queue>>>(g);
  } else {
    places_kernel<T, 1><<<grid_for(g.rows * g.width, 256), 256, 0, queue>>>(g);
  }
  check_launch("positions_gradient");
}

template void embedding_gpu(const EmbeddingRows<float>&, void*);
template void embedding_gradient_gpu(const EmbeddingGradient<float>&, void*);
template void positions_gradient_gpu(const PositionsGradient<float>&, void*);
template void embedding_gpu(const EmbeddingRows<Bfloat16>&, void*);
template void embedding_gradient_gpu(const EmbeddingGradient<Bfloat16>&, void*);
template void positions_gradient_gpu(const PositionsGradient<Bfloat16>&, void*);
template void embedding_gpu(const EmbeddingRows<Half>&, void*);
template void embedding_gradient_gpu(const EmbeddingGradient<Half>&, void*);
template void positions_gradient_gpu(const PositionsGradient<Half>&, void*);

}  // namespace hyperion::kernels
