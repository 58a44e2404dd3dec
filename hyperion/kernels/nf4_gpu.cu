#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/nf4_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 256, kEach = 8;  // elements a thread; a block of 64 is 8 threads'

template <class T>
struct alignas(16) Eight {
  T value[kEach];
};

template <class T>
__global__ void pack_kernel(const T* in, Nf4Scales scales, uint8_t* codes, int64_t count) {
  for (int64_t pair = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; pair * 2 < count;
       pair += int64_t{gridDim.x} * blockDim.x) {
    const float magnitude = nf4_magnitude(scales, pair * 2 / kNf4Block);
    const float inverse = magnitude > 0 ? 1 / magnitude : 0;
    const uint8_t low = nf4_code(to_float(in[pair * 2]) * inverse);
    const uint8_t high = pair * 2 + 1 < count ? nf4_code(to_float(in[pair * 2 + 1]) * inverse) : uint8_t{0};
    codes[pair] = static_cast<uint8_t>(low | high << 4);
  }
}

template <class T>
__global__ void unpack_kernel(const uint8_t* codes, Nf4Scales scales, Nf4Rows<T> rows) {
  const int64_t count = rows.count, apart = rows.pitch - rows.width;
  __shared__ float values[16];
  if (threadIdx.x < 16) values[threadIdx.x] = nf4_value(static_cast<int>(threadIdx.x));
  __syncthreads();
  for (int64_t piece = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; piece * kEach < count;
       piece += int64_t{gridDim.x} * blockDim.x) {
    const int64_t first = piece * kEach;
    const float magnitude = nf4_magnitude(scales, first / kNf4Block);
    T* out = rows.at + first + (apart == 0 ? 0 : first / rows.width * apart);
    if (first + kEach <= count) {
      const uint32_t packed = reinterpret_cast<const uint32_t*>(codes)[piece];
      Eight<T> eight;
#pragma unroll
      for (int i = 0; i < kEach; ++i) store(eight.value[i], values[(packed >> (4 * i)) & 15] * magnitude);
      *reinterpret_cast<Eight<T>*>(out) = eight;
    } else {
      for (int64_t i = first; i < count; ++i)
        store(out[i - first], values[(codes[i / 2] >> (i % 2 * 4)) & 15] * magnitude);
    }
  }
}

}  // namespace

template <class T>
void nf4_pack_gpu(const T* in, const Nf4Scales& scales, uint8_t* codes, int64_t count, void* stream) {
  if (count == 0) return;
  pack_kernel<<<grid_for((count + 1) / 2, kThreads), kThreads, 0, static_cast<GpuStream>(stream)>>>(in, scales, codes,
                                                                                                    count);
  check_launch("nf4_pack");
}

template <class T>
void nf4_unpack_gpu(const uint8_t* codes, const Nf4Scales& scales, const Nf4Rows<T>& out, void* stream) {
  if (out.count == 0) return;
  unpack_kernel<<<grid_for((out.count + kEach - 1) / kEach, kThreads), kThreads, 0, static_cast<GpuStream>(stream)>>>(
      codes, scales, out);
  check_launch("nf4_unpack");
}

template void nf4_pack_gpu(const float*, const Nf4Scales&, uint8_t*, int64_t, void*);
template void nf4_pack_gpu(const Bfloat16*, const Nf4Scales&, uint8_t*, int64_t, void*);
template void nf4_unpack_gpu(const uint8_t*, const Nf4Scales&, const Nf4Rows<float>&, void*);
template void nf4_unpack_gpu(const uint8_t*, const Nf4Scales&, const Nf4Rows<Bfloat16>&, void*);

}  // namespace hyperion::kernels
