#include "hyperion/blocks/packed_attention_math.h"
#include "hyperion/kernels/column_sums_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::blocks {

using namespace kernels;
namespace {

constexpr int kThreads = 256;
constexpr int kSumThreads = 384, kSumsAtOnce = 768;  // of a block that sums as it packs, and of a multiprocessor
constexpr int64_t kMostBlocksEach = 3;               // of them a multiprocessor

// Cosines or sines of one place.
template <int STEP>
__device__ inline void load_table(const float* from, float (&out)[STEP]) {
#pragma unroll
  for (int i = 0; i < STEP; i += 4) {
    const Words words = load_words(from + i);
#pragma unroll
    for (int k = 0; k < 4; ++k) out[i + k] = __uint_as_float(words.word[k]);
  }
}

// A block a token; a thread turns `STEP` pairs (i, i + width / 2) of a head. Indices inside a token have 32 bits:
// dividing 64 takes longer than the bytes.
template <class T, int STEP>
__global__ void __launch_bounds__(kThreads)
    rotate_kernel(T* packed, int64_t heads, uint32_t rotated, uint32_t width, Rotation rotation) {
  const uint32_t half = width / 2, of_head = half / STEP;
  const int64_t token = blockIdx.x, row = blockIdx.x % static_cast<uint32_t>(rotation.positions) * int64_t{half};
  for (uint32_t item = threadIdx.x; item < rotated * of_head; item += blockDim.x) {
    const uint32_t head = item / of_head, pair = (item - head * of_head) * STEP;
    T* low = packed + (token * heads + head) * width + pair;
    if constexpr (STEP == kWide<T>) {
      float a[STEP], b[STEP];
      load_floats(low, a);
      load_floats(low + half, b);
      float c[STEP], s[STEP];
      load_table(rotation.cosines + row + pair, c);
      load_table(rotation.sines + row + pair, s);
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        const float turned_low = a[i] * c[i] - b[i] * s[i];
        b[i] = b[i] * c[i] + a[i] * s[i];
        a[i] = turned_low;
      }
      store_floats(low, a);
      store_floats(low + half, b);
    } else {
      const float a = to_float(low[0]), b = to_float(low[half]);
      const float c = rotation.cosines[row + pair], s = rotation.sines[row + pair];
      store(low[0], a * c - b * s);
      store(low[half], b * c + a * s);
    }
  }
}

template <class T>
__device__ inline const T* place_of(const HeadGradient<T>& part, int64_t batch, int64_t place, uint32_t head) {
  return part.data + batch * part.batch_stride + place * part.length_stride + head * part.head_stride;
}

// As above, from where the parts lie to the packed place, and turning back.
template <class T, int STEP>
__global__ void __launch_bounds__(kThreads)
    pack_kernel(HeadGradient<T> queries, HeadGradient<T> keys, HeadGradient<T> values, T* packed, int64_t length,
                uint32_t width, Rotation rotation) {
  const uint32_t half = width / 2, of_head = half / STEP;
  const auto first = static_cast<uint32_t>(queries.heads), second = first + static_cast<uint32_t>(keys.heads),
             heads = second + static_cast<uint32_t>(values.heads);
  const uint32_t token_32 = blockIdx.x, batch_32 = token_32 / static_cast<uint32_t>(length);
  const int64_t token = token_32, batch = batch_32, place = token - batch * length;
  const bool turning = rotation.cosines != nullptr;
  const int64_t row = turning ? token_32 % static_cast<uint32_t>(rotation.positions) * int64_t{half} : 0;
  for (uint32_t item = threadIdx.x; item < heads * of_head; item += blockDim.x) {
    const uint32_t head = item / of_head, pair = (item - head * of_head) * STEP;
    T* to = packed + (token * heads + head) * width + pair;
    const T* from = (head < first    ? place_of(queries, batch, place, head)
                     : head < second ? place_of(keys, batch, place, head - first)
                                     : place_of(values, batch, place, head - second)) +
                    pair;
    const bool turns = turning && head < second;
    if constexpr (STEP == kWide<T>) {
      const Words low = load_words(from), high = load_words(from + half);
      if (!turns) {
        *reinterpret_cast<Words*>(to) = low;
        *reinterpret_cast<Words*>(to + half) = high;
        continue;
      }
      float a[STEP], b[STEP];
      to_floats<T>(low, a);
      to_floats<T>(high, b);
      float c[STEP], s[STEP];
      load_table(rotation.cosines + row + pair, c);
      load_table(rotation.sines + row + pair, s);
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        const float back_low = a[i] * c[i] + b[i] * s[i];
        b[i] = b[i] * c[i] - a[i] * s[i];
        a[i] = back_low;
      }
      store_floats(to, a);
      store_floats(to + half, b);
    } else {
      const float a = to_float(from[0]), b = to_float(from[half]);
      const float c = turns ? rotation.cosines[row + pair] : 1.0f, s = turns ? rotation.sines[row + pair] : 0.0f;
      store(to[0], a * c + b * s);
      store(to[half], b * c - a * s);
    }
  }
}

// The same with sums over the tokens: a thread keeps its place in the row and walks over the tokens, reading one ahead.
template <class T>
__global__ void __launch_bounds__(kSumThreads, kSumsAtOnce / kSumThreads)
    pack_and_sum_kernel(HeadGradient<T> queries, HeadGradient<T> keys, HeadGradient<T> values, T* packed,
                        int64_t tokens, uint32_t length, uint32_t width, Rotation rotation, float* partial) {
  constexpr int kCount = kWide<T>;
  __shared__ float meeting[2 * kCount][kSumThreads];
  const uint32_t half = width / 2, of_head = half / kCount;
  const auto first = static_cast<uint32_t>(queries.heads), second = first + static_cast<uint32_t>(keys.heads),
             heads = second + static_cast<uint32_t>(values.heads);
  const uint32_t head = threadIdx.x / of_head, pair = (threadIdx.x - head * of_head) * kCount;
  const bool mine = head < heads;
  const HeadGradient<T>& part = head < first ? queries : head < second ? keys : values;
  const T* data = part.data +
                  (head < first    ? head
                   : head < second ? head - first
                                   : head - second) *
                      part.head_stride +
                  pair;
  const int64_t batch_stride = part.batch_stride, length_stride = part.length_stride;
  const bool turns = rotation.cosines != nullptr && head < second;
  const int64_t step = int64_t{gridDim.x} * blockDim.y;
  float low_sums[kCount], high_sums[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) low_sums[i] = high_sums[i] = 0;
  Words next_low{}, next_high{};
  const auto fetch = [&](int64_t token) {
    if (token >= tokens || !mine) return;
    const auto batch = static_cast<uint32_t>(token) / length, place = static_cast<uint32_t>(token) - batch * length;
    const T* from = data + batch * batch_stride + place * length_stride;
    next_low = load_streamed(from);
    next_high = load_streamed(from + half);
  };
  int64_t token = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  fetch(token);
  for (; token < tokens && mine; token += step) {
    float a[kCount], b[kCount];
    to_floats<T>(next_low, a);
    to_floats<T>(next_high, b);
    fetch(token + step);
    if (turns) {
      const auto row = static_cast<uint32_t>(token) % static_cast<uint32_t>(rotation.positions) * int64_t{half} + pair;
      float c[kCount], s[kCount];
      load_table(rotation.cosines + row, c);
      load_table(rotation.sines + row, s);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float back_low = a[i] * c[i] + b[i] * s[i];
        b[i] = b[i] * c[i] - a[i] * s[i];
        a[i] = back_low;
      }
    }
    T* to = packed + (token * heads + head) * width + pair;
    store_floats(to, a);
    store_floats(to + half, b);
#pragma unroll
    for (int i = 0; i < kCount; ++i) low_sums[i] += a[i], high_sums[i] += b[i];
  }
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
  for (int i = 0; i < kCount; ++i) meeting[i][thread] = low_sums[i], meeting[kCount + i][thread] = high_sums[i];
  __syncthreads();
  if (threadIdx.y != 0 || !mine) return;
  float* out = partial + (int64_t{blockIdx.x} * heads + head) * width + pair;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    float low = low_sums[i], high = high_sums[i];
    for (unsigned y = 1; y < blockDim.y; ++y) {
      low += meeting[i][y * blockDim.x + threadIdx.x];
      high += meeting[kCount + i][y * blockDim.x + threadIdx.x];
    }
    out[i] = low, out[half + i] = high;
  }
}

// Threads for the items of one token: whole warps, not more than a block's.
unsigned threads_for(int64_t items) {
  const int64_t whole = (items + kLanes - 1) / kLanes * kLanes;
  return static_cast<unsigned>(whole < kThreads ? whole : kThreads);
}

}  // namespace

template <class T>
void rotate_heads_gpu(const PackedHeads<T>& given, int64_t rotated, const Rotation& rotation, void* stream) {
  const auto [packed, tokens, heads, width] = given;
  const int64_t pairs = rotated * (width / 2);  // of a token
  if (tokens * pairs == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  const auto blocks = static_cast<unsigned>(tokens);
  if (width / 2 % kWide<T> == 0 && aligned(packed) && aligned(rotation.cosines) && aligned(rotation.sines)) {
    rotate_kernel<T, kWide<T>><<<blocks, threads_for(pairs / kWide<T>), 0, queue>>>(
        packed, heads, static_cast<uint32_t>(rotated), static_cast<uint32_t>(width), rotation);
  } else {
    rotate_kernel<T, 1><<<blocks, threads_for(pairs), 0, queue>>>(packed, heads, static_cast<uint32_t>(rotated),
                                                                  static_cast<uint32_t>(width), rotation);
  }
  check_launch("rotate_heads");
}

template <class T>
int64_t pack_heads_gpu(const PackHeads<T>& given, const Rotation& rotation, void* stream) {
  const auto& [parts, packed, batch, length, width, sums, partial] = given;
  const int64_t heads = parts[0].heads + parts[1].heads + parts[2].heads, pairs = heads * (width / 2);  // of a token
  if (batch * length * pairs == 0) return 0;
  const auto queue = static_cast<GpuStream>(stream);
  const auto blocks = static_cast<unsigned>(batch * length);
  bool whole = width / 2 % kWide<T> == 0 && aligned(packed) && aligned(rotation.cosines) && aligned(rotation.sines);
  for (const auto& part : parts)
    whole = whole && aligned(part.data) && part.batch_stride % kWide<T> == 0 && part.length_stride % kWide<T> == 0 &&
            part.head_stride % kWide<T> == 0;
  const int64_t across = (pairs / kWide<T> + kLanes - 1) / kLanes * kLanes;
  if (whole && sums != nullptr && across <= kSumThreads && batch * length < (int64_t{1} << 31)) {
    const int64_t down = kSumThreads / across, needed = (batch * length + down - 1) / down;
    const int64_t each = kSumsAtOnce / (across * down),
                  most = gpu_limits().multiprocessors * (each < kMostBlocksEach ? each : kMostBlocksEach);
    const int64_t at_once = needed < most ? needed : most;
    pack_and_sum_kernel<T>
        <<<static_cast<unsigned>(at_once), dim3(static_cast<unsigned>(across), static_cast<unsigned>(down)), 0,
           queue>>>(parts[0], parts[1], parts[2], packed, batch * length, static_cast<uint32_t>(length),
                    static_cast<uint32_t>(width), rotation, partial);
    check_launch("pack_heads");
    return at_once;
  }
  if (whole) {
    pack_kernel<T, kWide<T>><<<blocks, threads_for(pairs / kWide<T>), 0, queue>>>(
        parts[0], parts[1], parts[2], packed, length, static_cast<uint32_t>(width), rotation);
  } else {
    pack_kernel<T, 1><<<blocks, threads_for(pairs), 0, queue>>>(parts[0], parts[1], parts[2], packed, length,
                                                                static_cast<uint32_t>(width), rotation);
  }
  check_launch("pack_heads");
  if (sums != nullptr) column_sums_gpu<T>(packed, batch * length, heads * width, partial, sums, stream);
  return 0;
}

int64_t pack_heads_parts(int64_t tokens) {
  const int64_t blocks = kMostBlocksEach * gpu_limits().multiprocessors, most = tokens < blocks ? tokens : blocks,
                plain = column_sum_parts(tokens);
  return most > plain ? most : plain;
}

template void rotate_heads_gpu(const PackedHeads<float>&, int64_t, const Rotation&, void*);
template int64_t pack_heads_gpu(const PackHeads<float>&, const Rotation&, void*);
template void rotate_heads_gpu(const PackedHeads<Bfloat16>&, int64_t, const Rotation&, void*);
template int64_t pack_heads_gpu(const PackHeads<Bfloat16>&, const Rotation&, void*);
template void rotate_heads_gpu(const PackedHeads<Half>&, int64_t, const Rotation&, void*);
template int64_t pack_heads_gpu(const PackHeads<Half>&, const Rotation&, void*);

}  // namespace hyperion::blocks
