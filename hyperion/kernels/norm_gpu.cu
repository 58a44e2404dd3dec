// A row is held in registers: by a warp, or where it is wide by a block.
#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/norm_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kWarps = 4;    // rows of a block, a warp each
constexpr int kOfWide = 4;   // 16-byte pieces a thread of a block that shares a row
constexpr int kMost = 1024;  // threads of a block

template <bool BLOCK>
__device__ inline float row_sum(float value) {
  if constexpr (BLOCK) {
    float values[1] = {value};
    block_sums(values);
    return values[0];
  } else {
    return warp_sum(value);
  }
}

// VECTORS: 16-byte pieces of a row a thread holds.
template <class T, int VECTORS, bool LAYER, bool BLOCK>
__global__ void __launch_bounds__(BLOCK ? kMost : kWarps* kLanes) forward_rows(NormForward<T> norm) {
  constexpr int kCount = kWide<T>;
  const int64_t row = BLOCK ? blockIdx.x : blockIdx.x * int64_t{kWarps} + threadIdx.x / kLanes;
  if (row >= norm.rows) return;
  const int across = BLOCK ? blockDim.x : kLanes, place = BLOCK ? threadIdx.x : threadIdx.x % kLanes;
  const int pieces = static_cast<int>(norm.width / kCount);
  const T* from = norm.x + row * norm.width;
  Words x[VECTORS];
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int piece = v * across + place;
    x[v] = piece < pieces ? load_streamed(from + piece * kCount) : Words{{0, 0, 0, 0}};
  }
  float mean = 0, inverse;
  if (norm.known) {
    if constexpr (LAYER) mean = norm.mean[row];
    inverse = norm.inverse[row];
  } else {
    const float share = 1.0f / static_cast<float>(norm.width);
    if constexpr (LAYER) {
      float sum = 0;
#pragma unroll
      for (int v = 0; v < VECTORS; ++v) {
        float values[kCount];
        to_floats<T>(x[v], values);
#pragma unroll
        for (int i = 0; i < kCount; ++i) sum += values[i];
      }
      mean = row_sum<BLOCK>(sum) * share;
    }
    float squares = 0;
#pragma unroll
    for (int v = 0; v < VECTORS; ++v) {
      if (v * across + place >= pieces) continue;
      float values[kCount];
      to_floats<T>(x[v], values);
#pragma unroll
      for (int i = 0; i < kCount; ++i) squares += (values[i] - mean) * (values[i] - mean);
    }
    inverse = rsqrtf(row_sum<BLOCK>(squares) * share + norm.epsilon);
    if (place == 0) {
      if constexpr (LAYER) norm.mean[row] = mean;
      norm.inverse[row] = inverse;
    }
  }
  if (norm.y == nullptr) return;
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int piece = v * across + place;
    if (piece >= pieces) continue;
    float values[kCount], weight[kCount], bias[kCount];
    to_floats<T>(x[v], values);
    load_floats(norm.weight + piece * kCount, weight);
    if constexpr (LAYER) load_floats(norm.bias + piece * kCount, bias);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float scaled = (values[i] - mean) * inverse * weight[i];
      values[i] = LAYER ? scaled + bias[i] : scaled;
    }
    store_floats(norm.y + row * norm.pitch + piece * kCount, values);
  }
}

// Any width: a block a row, read twice or three times.
template <class T, bool LAYER>
__global__ void forward_any(NormForward<T> norm) {
  const int64_t row = blockIdx.x;
  const T* x = norm.x + row * norm.width;
  float mean = 0, inverse;
  if (norm.known) {
    if constexpr (LAYER) mean = norm.mean[row];
    inverse = norm.inverse[row];
  } else {
    if constexpr (LAYER) {
      float sum = 0;
      for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) sum += to_float(x[i]);
      mean = row_sum<true>(sum) / static_cast<float>(norm.width);
    }
    float squares = 0;
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
      const float value = to_float(x[i]) - mean;
      squares += value * value;
    }
    inverse = rsqrtf(row_sum<true>(squares) / static_cast<float>(norm.width) + norm.epsilon);
    if (threadIdx.x == 0) {
      if constexpr (LAYER) norm.mean[row] = mean;
      norm.inverse[row] = inverse;
    }
  }
  if (norm.y == nullptr) return;
  for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
    const float scaled = (to_float(x[i]) - mean) * inverse * to_float(norm.weight[i]);
    store(norm.y[row * norm.pitch + i], LAYER ? scaled + to_float(norm.bias[i]) : scaled);
  }
}

template <class T, bool LAYER, int VECTORS>
void a_warp_each(const NormForward<T>& norm, GpuStream stream) {
  const auto blocks = static_cast<unsigned>((norm.rows + kWarps - 1) / kWarps);
  forward_rows<T, VECTORS, LAYER, false><<<blocks, kWarps * kLanes, 0, stream>>>(norm);
}

template <class T, bool LAYER>
void forward_as(const NormForward<T>& norm, GpuStream stream) {
  const bool whole = norm.width % kWide<T> == 0 && aligned(norm.x) && aligned(norm.weight) && aligned(norm.y) &&
                     norm.pitch % kWide<T> == 0 && (!LAYER || aligned(norm.bias));
  const int64_t pieces = norm.width / kWide<T>, vectors = (pieces + kLanes - 1) / kLanes;
  if (whole && vectors <= 1) return a_warp_each<T, LAYER, 1>(norm, stream);
  if (whole && vectors <= 2) return a_warp_each<T, LAYER, 2>(norm, stream);
  if (whole && vectors <= 3) return a_warp_each<T, LAYER, 3>(norm, stream);
  if (whole && vectors <= 4) return a_warp_each<T, LAYER, 4>(norm, stream);
  if (whole && vectors <= 5) return a_warp_each<T, LAYER, 5>(norm, stream);
  if (whole && vectors <= 6) return a_warp_each<T, LAYER, 6>(norm, stream);
  if (whole && vectors <= 8) return a_warp_each<T, LAYER, 8>(norm, stream);
  const auto rows = static_cast<unsigned>(norm.rows);
  const int64_t threads = (pieces + kOfWide * kLanes - 1) / (kOfWide * kLanes) * kLanes;
  if (whole && threads <= kMost)
    return forward_rows<T, kOfWide, LAYER, true><<<rows, static_cast<unsigned>(threads), 0, stream>>>(norm);
  forward_any<T, LAYER><<<rows, 256, 0, stream>>>(norm);
}

}  // namespace

template <class T>
void norm_forward_gpu(const NormForward<T>& norm, void* stream) {
  if (norm.rows == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  norm.mean != nullptr ? forward_as<T, true>(norm, queue) : forward_as<T, false>(norm, queue);
  check_launch("norm_forward");
}

template void norm_forward_gpu(const NormForward<float>&, void*);
template void norm_forward_gpu(const NormForward<Bfloat16>&, void*);
template void norm_forward_gpu(const NormForward<Half>&, void*);

}  // namespace hyperion::kernels
