// A warp holds a row in registers on the way forward. On the way back a block walks over rows, each thread keeps its
// own columns, and so adds up the gradients of weight and bias as it goes; a second pass adds up the blocks.
#include "hyperion/kernels/gpu_vectors.h"
#include "hyperion/kernels/norm_math.h"

namespace hyperion::kernels {
namespace {

constexpr int kWarps = 4;       // rows of a block, forward
constexpr int kRowsAtOnce = 4;  // of a block, backward: loads in flight together
constexpr int64_t kParts = 1056;

// VECTORS: 16-byte pieces of a row a lane holds.
template <class T, int VECTORS, bool LAYER>
__global__ void __launch_bounds__(kWarps* kLanes) forward_rows(NormForward<T> norm) {
  constexpr int kCount = kWide<T>;
  const int64_t row = blockIdx.x * int64_t{kWarps} + threadIdx.x / kLanes;
  if (row >= norm.rows) return;
  const int lane = threadIdx.x % kLanes, pieces = static_cast<int>(norm.width / kCount);
  const T* x = norm.x + row * norm.width;
  float values[VECTORS][kCount];
  float sum = 0;
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int piece = v * kLanes + lane;
    if (piece < pieces) {
      load_floats(x + piece * kCount, values[v]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) values[v][i] = 0;
    }
  }
  float mean = 0;
  if constexpr (LAYER) {
#pragma unroll
    for (int v = 0; v < VECTORS; ++v)
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum += values[v][i];
    mean = warp_sum(sum) / static_cast<float>(norm.width);
  }
  float squares = 0;
#pragma unroll
  for (int v = 0; v < VECTORS; ++v)
    if (v * kLanes + lane < pieces) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) squares += (values[v][i] - mean) * (values[v][i] - mean);
    }
  const float inverse = rsqrtf(warp_sum(squares) / static_cast<float>(norm.width) + norm.epsilon);
  if (lane == 0) {
    if constexpr (LAYER) norm.mean[row] = mean;
    norm.inverse[row] = inverse;
  }
  if (norm.y == nullptr) return;
#pragma unroll
  for (int v = 0; v < VECTORS; ++v) {
    const int piece = v * kLanes + lane;
    if (piece >= pieces) continue;
    float weight[kCount], bias[kCount];
    load_floats(norm.weight + piece * kCount, weight);
    if constexpr (LAYER) load_floats(norm.bias + piece * kCount, bias);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float normal = (values[v][i] - mean) * inverse;
      weight[i] = LAYER ? normal * weight[i] + bias[i] : normal * weight[i];
    }
    store_floats(norm.y + row * norm.width + piece * kCount, weight);
  }
}

// Any width: a block a row, read twice or three times.
template <class T, bool LAYER>
__global__ void forward_any(NormForward<T> norm) {
  const int64_t row = blockIdx.x;
  const T* x = norm.x + row * norm.width;
  float mean = 0;
  if constexpr (LAYER) {
    float sum[1] = {0};
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) sum[0] += to_float(x[i]);
    block_sums(sum);
    mean = sum[0] / static_cast<float>(norm.width);
  }
  float squares[1] = {0};
  for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
    const float value = to_float(x[i]) - mean;
    squares[0] += value * value;
  }
  block_sums(squares);
  const float inverse = rsqrtf(squares[0] / static_cast<float>(norm.width) + norm.epsilon);
  if (threadIdx.x == 0) {
    if constexpr (LAYER) norm.mean[row] = mean;
    norm.inverse[row] = inverse;
  }
  if (norm.y == nullptr) return;
  for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
    const float scaled = (to_float(x[i]) - mean) * inverse * to_float(norm.weight[i]);
    store(norm.y[row * norm.width + i], LAYER ? scaled + to_float(norm.bias[i]) : scaled);
  }
}

template <class T, bool LAYER>
__global__ void again_rows(NormAgain<T> norm, bool vectors) {
  const int64_t row = blockIdx.x * int64_t{blockDim.y} + threadIdx.y;
  if (row >= norm.rows) return;
  const float mean = LAYER ? norm.mean[row] : 0.0f, inverse = norm.inverse[row];
  const T* x = norm.x + row * norm.width;
  T* y = norm.y + row * norm.width;
  if (!vectors) {
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
      const float scaled = (to_float(x[i]) - mean) * inverse * to_float(norm.weight[i]);
      store(y[i], LAYER ? scaled + to_float(norm.bias[i]) : scaled);
    }
    return;
  }
  constexpr int kCount = kWide<T>;
  for (int64_t at = int64_t{threadIdx.x} * kCount; at < norm.width; at += int64_t{blockDim.x} * kCount) {
    float value[kCount], weight[kCount], bias[kCount];
    load_floats(x + at, value);
    load_floats(norm.weight + at, weight);
    if constexpr (LAYER) load_floats(norm.bias + at, bias);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float scaled = (value[i] - mean) * inverse * weight[i];
      value[i] = LAYER ? scaled + bias[i] : scaled;
    }
    store_floats(y + at, value);
  }
}

// Each thread owns kWide columns; blockDim.x * kWide >= width.
template <class T, bool LAYER, int THREADS>
__global__ void __launch_bounds__(THREADS) backward_rows(NormBackward<T> norm) {
  constexpr int kCount = kWide<T>;
  const int64_t column = int64_t{threadIdx.x} * kCount;
  const bool mine = column < norm.width;
  float weight[kCount], of_weight[kCount], of_bias[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) weight[i] = of_weight[i] = of_bias[i] = 0;
  if (mine) load_floats(norm.weight + column, weight);
  const float share = 1.0f / static_cast<float>(norm.width);
  for (int64_t first = int64_t{blockIdx.x} * kRowsAtOnce; first < norm.rows;
       first += int64_t{gridDim.x} * kRowsAtOnce) {
    Words x[kRowsAtOnce], dy[kRowsAtOnce], residual[kRowsAtOnce];
    float mean[kRowsAtOnce], inverse[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = first + r, at = row * norm.width + column;
      mean[r] = inverse[r] = 0;
      x[r] = dy[r] = residual[r] = Words{{0, 0, 0, 0}};
      if (row >= norm.rows) continue;
      if constexpr (LAYER) mean[r] = norm.mean[row];
      inverse[r] = norm.inverse[row];
      if (!mine) continue;
      x[r] = load_words(norm.x + at);
      dy[r] = load_words(norm.dy + at);
      if (norm.residual != nullptr) residual[r] = load_words(norm.residual + at);
    }
    float sums[2 * kRowsAtOnce];  // of the weighted gradient, and of it along the normal
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      float value[kCount], gradient[kCount];
      to_floats<T>(x[r], value);
      to_floats<T>(dy[r], gradient);
      sums[2 * r] = sums[2 * r + 1] = 0;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float normal = mine ? (value[i] - mean[r]) * inverse[r] : 0.0f;
        sums[2 * r] += gradient[i] * weight[i];
        sums[2 * r + 1] += gradient[i] * weight[i] * normal;
        of_weight[i] += gradient[i] * normal;
        of_bias[i] += gradient[i];
      }
    }
    block_sums(sums);
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int64_t row = first + r;
      if (row >= norm.rows || !mine) continue;
      float value[kCount], gradient[kCount], out[kCount];
      to_floats<T>(x[r], value);
      to_floats<T>(dy[r], gradient);
      to_floats<T>(residual[r], out);
      const float level = LAYER ? sums[2 * r] * share : 0.0f, along = sums[2 * r + 1] * share;
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float normal = (value[i] - mean[r]) * inverse[r];
        out[i] += inverse[r] * (gradient[i] * weight[i] - level - normal * along);
      }
      store_floats(norm.dx + row * norm.width + column, out);
    }
  }
  if (!mine || norm.partial == nullptr) return;
  float* partial = norm.partial + int64_t{blockIdx.x} * 2 * norm.width + column;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    partial[i] = of_weight[i];
    partial[norm.width + i] = of_bias[i];
  }
}

// Any width: a block walks over rows; its sums for weight and bias gather in its own part of `partial`.
template <class T, bool LAYER>
__global__ void backward_any(NormBackward<T> norm) {
  float* partial = norm.partial == nullptr ? nullptr : norm.partial + int64_t{blockIdx.x} * 2 * norm.width;
  if (partial != nullptr)
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) partial[i] = partial[norm.width + i] = 0;
  const float share = 1.0f / static_cast<float>(norm.width);
  for (int64_t row = blockIdx.x; row < norm.rows; row += gridDim.x) {
    const float mean = LAYER ? norm.mean[row] : 0.0f, inverse = norm.inverse[row];
    const int64_t start = row * norm.width;
    float sums[2] = {0, 0};
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
      const float gradient = to_float(norm.dy[start + i]), weighted = gradient * to_float(norm.weight[i]);
      const float normal = (to_float(norm.x[start + i]) - mean) * inverse;
      sums[0] += weighted;
      sums[1] += weighted * normal;
      if (partial != nullptr) {
        partial[i] += gradient * normal;
        partial[norm.width + i] += gradient;
      }
    }
    block_sums(sums);
    const float level = LAYER ? sums[0] * share : 0.0f, along = sums[1] * share;
    for (int64_t i = threadIdx.x; i < norm.width; i += blockDim.x) {
      const float weighted = to_float(norm.dy[start + i]) * to_float(norm.weight[i]);
      const float normal = (to_float(norm.x[start + i]) - mean) * inverse;
      const float residual = norm.residual == nullptr ? 0.0f : to_float(norm.residual[start + i]);
      store(norm.dx[start + i], residual + inverse * (weighted - level - normal * along));
    }
  }
}

// A warp a column of the 2 x width sums.
template <class T>
__global__ void add_parts(const float* partial, int64_t parts, int64_t width, T* dweight, T* dbias) {
  __shared__ float sums[8][33];
  const int64_t column = blockIdx.x * int64_t{32} + threadIdx.x;
  float sum = 0;
  if (column < 2 * width)
    for (int64_t part = threadIdx.y; part < parts; part += 8) sum += partial[part * 2 * width + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= 2 * width) return;
#pragma unroll
  for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
  T* out = column < width ? dweight : dbias;
  if (out != nullptr) store(out[column % width], sum);
}

template <class T, bool LAYER, int VECTORS>
void launch_forward(const NormForward<T>& norm, GpuStream stream) {
  const auto blocks = static_cast<unsigned>((norm.rows + kWarps - 1) / kWarps);
  forward_rows<T, VECTORS, LAYER><<<blocks, kWarps * kLanes, 0, stream>>>(norm);
}

template <class T, bool LAYER>
void forward_as(const NormForward<T>& norm, GpuStream stream) {
  const bool whole = norm.width % kWide<T> == 0 && aligned(norm.x) && aligned(norm.weight) && aligned(norm.y) &&
                     (!LAYER || aligned(norm.bias));
  const int64_t vectors = (norm.width / kWide<T> + kLanes - 1) / kLanes;
  if (whole && vectors <= 1) return launch_forward<T, LAYER, 1>(norm, stream);
  if (whole && vectors <= 2) return launch_forward<T, LAYER, 2>(norm, stream);
  if (whole && vectors <= 3) return launch_forward<T, LAYER, 3>(norm, stream);
  if (whole && vectors <= 4) return launch_forward<T, LAYER, 4>(norm, stream);
  if (whole && vectors <= 5) return launch_forward<T, LAYER, 5>(norm, stream);
  if (whole && vectors <= 6) return launch_forward<T, LAYER, 6>(norm, stream);
  if (whole && vectors <= 8) return launch_forward<T, LAYER, 8>(norm, stream);
  forward_any<T, LAYER><<<static_cast<unsigned>(norm.rows), 256, 0, stream>>>(norm);
}

template <class T, bool LAYER>
void backward_as(const NormBackward<T>& norm, GpuStream stream) {
  const bool whole = norm.width % kWide<T> == 0 && aligned(norm.x) && aligned(norm.weight) && aligned(norm.dy) &&
                     aligned(norm.residual) && aligned(norm.dx);
  const int64_t threads = (norm.width / kWide<T> + kLanes - 1) / kLanes * kLanes;
  const auto parts = static_cast<unsigned>(norm_backward_parts(norm.rows));
  if (whole && threads <= 256) {
    backward_rows<T, LAYER, 256><<<parts, static_cast<unsigned>(threads), 0, stream>>>(norm);
  } else if (whole && threads <= 1024) {
    backward_rows<T, LAYER, 1024><<<parts, static_cast<unsigned>(threads), 0, stream>>>(norm);
  } else {
    backward_any<T, LAYER><<<parts, 256, 0, stream>>>(norm);
  }
  check_launch("norm_backward");
  if (norm.partial == nullptr) return;
  const auto columns = static_cast<unsigned>((2 * norm.width + 31) / 32);
  add_parts<T><<<columns, dim3(32, 8), 0, stream>>>(norm.partial, parts, norm.width, norm.dweight, norm.dbias);
  check_launch("norm_backward, the sums");
}

}  // namespace

int64_t norm_backward_parts(int64_t rows) {
  const int64_t needed = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  return needed < 1 ? 1 : needed < kParts ? needed : kParts;
}

template <class T>
void norm_forward_gpu(const NormForward<T>& norm, void* stream) {
  if (norm.rows == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  norm.mean != nullptr ? forward_as<T, true>(norm, queue) : forward_as<T, false>(norm, queue);
  check_launch("norm_forward");
}

template <class T>
void norm_again_gpu(const NormAgain<T>& norm, void* stream) {
  if (norm.rows == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  const bool vectors = norm.width % kWide<T> == 0 && aligned(norm.x) && aligned(norm.weight) && aligned(norm.y) &&
                       (norm.bias == nullptr || aligned(norm.bias));
  const dim3 threads(32, 8);
  const auto blocks = static_cast<unsigned>((norm.rows + 7) / 8);
  if (norm.mean != nullptr)
    again_rows<T, true><<<blocks, threads, 0, queue>>>(norm, vectors);
  else
    again_rows<T, false><<<blocks, threads, 0, queue>>>(norm, vectors);
  check_launch("norm_again");
}

template <class T>
void norm_backward_gpu(const NormBackward<T>& norm, void* stream) {
  if (norm.rows == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  norm.mean != nullptr ? backward_as<T, true>(norm, queue) : backward_as<T, false>(norm, queue);
}

#define HYPERION_NORM(T)                                        \
  template void norm_forward_gpu(const NormForward<T>&, void*); \
  template void norm_again_gpu(const NormAgain<T>&, void*);     \
  template void norm_backward_gpu(const NormBackward<T>&, void*);
HYPERION_NORM(float)
HYPERION_NORM(Bfloat16)
HYPERION_NORM(Half)
#undef HYPERION_NORM

}  // namespace hyperion::kernels
