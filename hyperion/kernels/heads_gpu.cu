#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/heads_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 256;

// A block a token; a thread turns `STEP` pairs (i, i + width / 2) of a head. Indices inside a token have 32 bits:
// dividing 64 takes longer than the bytes.
template <class T, int STEP>
__global__ void __launch_bounds__(kThreads)
    rotate_kernel(T* packed, int64_t heads, uint32_t turned, uint32_t width, Rotation rotation) {
  const uint32_t half = width / 2, of_head = half / STEP;
  const int64_t token = blockIdx.x, row = token % rotation.places * half;
  for (uint32_t item = threadIdx.x; item < turned * of_head; item += blockDim.x) {
    const uint32_t head = item / of_head, pair = (item - head * of_head) * STEP;
    T* low = packed + (token * heads + head) * width + pair;
    if constexpr (STEP == kWide<T>) {
      float a[STEP], b[STEP];
      load_floats(low, a);
      load_floats(low + half, b);
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        const float c = rotation.cosines[row + pair + i], s = rotation.sines[row + pair + i];
        const float turned_low = a[i] * c - b[i] * s;
        b[i] = b[i] * c + a[i] * s;
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
  const int64_t token = blockIdx.x, batch = token / length, place = token - batch * length;
  const bool turning = rotation.cosines != nullptr;
  const int64_t row = turning ? token % rotation.places * half : 0;
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
#pragma unroll
      for (int i = 0; i < STEP; ++i) {
        const float c = rotation.cosines[row + pair + i], s = rotation.sines[row + pair + i];
        const float back_low = a[i] * c + b[i] * s;
        b[i] = b[i] * c - a[i] * s;
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

// Threads for the items of one token: whole warps, not more than a block's.
unsigned threads_for(int64_t items) {
  const int64_t whole = (items + kLanes - 1) / kLanes * kLanes;
  return static_cast<unsigned>(whole < kThreads ? whole : kThreads);
}

}  // namespace

template <class T>
void rotate_heads_gpu(T* packed, int64_t tokens, int64_t heads, int64_t turned, int64_t width, const Rotation& rotation,
                      void* stream) {
  const int64_t pairs = turned * (width / 2);  // of a token
  if (tokens * pairs == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  const auto blocks = static_cast<unsigned>(tokens);
  if (width / 2 % kWide<T> == 0 && aligned(packed)) {
    rotate_kernel<T, kWide<T>><<<blocks, threads_for(pairs / kWide<T>), 0, queue>>>(
        packed, heads, static_cast<uint32_t>(turned), static_cast<uint32_t>(width), rotation);
  } else {
    rotate_kernel<T, 1><<<blocks, threads_for(pairs), 0, queue>>>(packed, heads, static_cast<uint32_t>(turned),
                                                                  static_cast<uint32_t>(width), rotation);
  }
  check_launch("rotate_heads");
}

template <class T>
void pack_heads_gpu(const HeadGradient<T> (&parts)[3], T* packed, int64_t batch, int64_t length, int64_t width,
                    const Rotation& rotation, void* stream) {
  const int64_t pairs = (parts[0].heads + parts[1].heads + parts[2].heads) * (width / 2);  // of a token
  if (batch * length * pairs == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  const auto blocks = static_cast<unsigned>(batch * length);
  bool whole = width / 2 % kWide<T> == 0 && aligned(packed);
  for (const auto& part : parts)
    whole = whole && aligned(part.data) && part.batch_stride % kWide<T> == 0 && part.length_stride % kWide<T> == 0 &&
            part.head_stride % kWide<T> == 0;
  if (whole) {
    pack_kernel<T, kWide<T>><<<blocks, threads_for(pairs / kWide<T>), 0, queue>>>(
        parts[0], parts[1], parts[2], packed, length, static_cast<uint32_t>(width), rotation);
  } else {
    pack_kernel<T, 1><<<blocks, threads_for(pairs), 0, queue>>>(parts[0], parts[1], parts[2], packed, length,
                                                                static_cast<uint32_t>(width), rotation);
  }
  check_launch("pack_heads");
}

#define HYPERION_HEADS(T)                                                                         \
  template void rotate_heads_gpu(T*, int64_t, int64_t, int64_t, int64_t, const Rotation&, void*); \
  template void pack_heads_gpu(const HeadGradient<T>(&)[3], T*, int64_t, int64_t, int64_t, const Rotation&, void*);
HYPERION_HEADS(float)
HYPERION_HEADS(Bfloat16)
HYPERION_HEADS(Half)
#undef HYPERION_HEADS

}  // namespace hyperion::kernels
