// What row and element kernels share: 16-byte accesses as floats, and sums over warps and blocks. For .cu files only.
#pragma once
#include "hyperion/device/gpu_runtime.h"
#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

using namespace device;  // of gpu_runtime.h

// As many elements as fit in 16 bytes.
template <class T>
inline constexpr int kWide = 16 / sizeof(T);

struct alignas(16) Words {
  uint32_t word[4];
};

template <class T>
__device__ inline Words load_words(const T* from) {
  return *reinterpret_cast<const Words*>(from);
}
// Of a tensor that is not read again soon: past the caches' favour.
template <class T>
__device__ inline Words load_once(const T* from) {
#ifdef __HIPCC__
  return load_words(from);
#else
  const uint4 raw = __ldcs(reinterpret_cast<const uint4*>(from));
  return {{raw.x, raw.y, raw.z, raw.w}};
#endif
}
// Past the first cache alone, which is left to what every row needs: weights and tables.
template <class T>
__device__ inline Words load_streamed(const T* from) {
#if defined(__CUDA_ARCH__)
  Words words;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
               : "l"(from)
               : "memory");
  return words;
#else
  return load_words(from);
#endif
}

// 16 bytes into shared memory while the thread goes on. Copies are closed into groups; `wait_for_copies` returns when
// at most `LATER` of the thread's last groups are still under way. Each thread sees its own copies, others' after a
// barrier. Before 8.0 the thread waits for each.
__device__ inline void copy_ahead(Words* shared, const void* global) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))), "l"(global)
               : "memory");
#else
  *shared = *static_cast<const Words*>(global);
#endif
}
__device__ inline void close_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int LATER>
__device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
#endif
}

// One instruction each, right to about 2^-22 of the result; what is below 2^-126 counts as 0.
__device__ inline float quick_exp2(float x) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
#else
  return exp2f(x);
#endif
}
__device__ inline float quick_reciprocal(float x) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(value) : "f"(x));
  return value;
#else
  return 1.0f / x;
#endif
}

// Two floats to one word of two narrow ones, and back, by the GPU's own instructions where it has them.
__device__ inline uint32_t narrow_pair(float low, float high, Bfloat16) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t word;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#else
  Bfloat16 a, b;
  store(a, low), store(b, high);
  return a.bits | static_cast<uint32_t>(b.bits) << 16;
#endif
}
__device__ inline uint32_t narrow_pair(float low, float high, Half) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t word;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  return word;
#elif defined(__CUDA_ARCH__)
  uint16_t a, b;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(a) : "f"(low));
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(high));
  return a | static_cast<uint32_t>(b) << 16;
#else
  Half a, b;
  store(a, low), store(b, high);
  return a.bits | static_cast<uint32_t>(b.bits) << 16;
#endif
}
__device__ inline float widen(uint32_t bits, Bfloat16) { return __uint_as_float(bits << 16); }
__device__ inline float widen(uint32_t bits, Half) {
#if defined(__CUDA_ARCH__)
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(static_cast<uint16_t>(bits)));
  return value;
#else
  return to_float(Half{static_cast<uint16_t>(bits)});
#endif
}

template <class T>
__device__ inline void to_floats(const Words& words, float (&out)[kWide<T>]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = __uint_as_float(words.word[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      out[2 * i] = widen(words.word[i] & 0xffffu, T{});
      out[2 * i + 1] = widen(words.word[i] >> 16, T{});
    }
  }
}

template <class T>
__device__ inline Words to_words(const float (&in)[kWide<T>]) {
  Words words;
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) words.word[i] = __float_as_uint(in[i]);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) words.word[i] = narrow_pair(in[2 * i], in[2 * i + 1], T{});
  }
  return words;
}

template <class T>
__device__ inline void load_floats(const T* from, float (&out)[kWide<T>]) {
  to_floats<T>(load_words(from), out);
}
template <class T>
__device__ inline void load_floats_streamed(const T* from, float (&out)[kWide<T>]) {
  to_floats<T>(load_streamed(from), out);
}
template <class T>
__device__ inline void store_floats(T* to, const float (&in)[kWide<T>]) {
  *reinterpret_cast<Words*>(to) = to_words<T>(in);
}

// 16 bytes, or one element.
template <class T, int COUNT>
__device__ inline void store_some(T* to, const float (&in)[COUNT]) {
  if constexpr (COUNT == 1) {
    store(*to, in[0]);
  } else {
    store_floats(to, in);
  }
}

// What is not read again soon: the first to leave the second cache.
template <class T>
__device__ inline void store_floats_once(T* to, const float (&in)[kWide<T>]) {
#ifdef __HIPCC__
  store_floats(to, in);
#else
  const Words words = to_words<T>(in);
  __stcs(reinterpret_cast<uint4*>(to), uint4{words.word[0], words.word[1], words.word[2], words.word[3]});
#endif
}

// A wavefront of AMD's has 64 lanes; sums run over groups of 32 on both, so that results agree.
constexpr int kLanes = 32;

// Which of the group's 32 lanes say so, lane 0 in the lowest bit.
__device__ inline uint32_t votes(bool vote) {
#ifdef __HIPCC__
  return static_cast<uint32_t>(__ballot(vote) >> (threadIdx.x & 32u));
#else
  return __ballot_sync(0xffffffffu, vote);
#endif
}
// What a lane wrote to shared memory the others find.
__device__ inline void meet_warp() {
#ifdef __HIPCC__
  __threadfence_block();
#else
  __syncwarp();
#endif
}

__device__ inline float exchange(float value, int distance) {
#ifdef __HIPCC__
  return __shfl_xor(value, distance, kLanes);
#else
  return __shfl_xor_sync(0xffffffffu, value, distance, kLanes);
#endif
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) value += exchange(value, distance);
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) value = fmaxf(value, exchange(value, distance));
  return value;
}

// The sums of `Count` values over the block, in every thread, in a fixed order. Threads: a multiple of 32.
template <int Count>
__device__ inline void block_sums(float (&values)[Count]) {
  __shared__ float of_warps[Count][1024 / kLanes];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = warp_sum(values[i]);
  if (warps == 1) return;
  __syncthreads();  // the last call's readers are done
  if (lane == 0) {
#pragma unroll
    for (int i = 0; i < Count; ++i) of_warps[i][warp] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = warp_sum(lane < warps ? of_warps[i][lane] : 0.0f);
}

__device__ inline float block_max(float value) {
  __shared__ float of_warps[1024 / kLanes];
  const int lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes, warps = blockDim.x / kLanes;
  value = warp_max(value);
  __syncthreads();
  if (lane == 0) of_warps[warp] = value;
  __syncthreads();
  return warp_max(lane < warps ? of_warps[lane] : -INFINITY);
}

template <class T>
bool aligned(const T* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0;
}

}  // namespace hyperion::kernels
