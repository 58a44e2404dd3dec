#include "hyperion/kernels/activations_math.h"
#include "hyperion/kernels/column_sums_math.h"
#include "hyperion/kernels/gpu_activations.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 128;
constexpr int kAcross = 32, kDown = 8;  // of a block that sums columns
constexpr int64_t kBlocksEach = 4;      // of them a multiprocessor, all at once

// Where a piece of the output finds its gate; 32 bits: dividing 64 takes longer than the bytes.
__device__ inline int64_t gate_at(uint32_t piece, uint32_t of_row, int count) {
  const uint32_t row = piece / of_row;
  return (int64_t{row} * 2 * of_row + (piece - row * of_row)) * count;
}

__device__ inline int64_t column_of(uint32_t piece, uint32_t of_row, int count) {
  return int64_t{piece % of_row} * count;
}

// A piece of the input, with the biases of its columns where there are any.
template <class T>
__device__ inline void to_biased(const Words& in, const T* bias, int64_t column, float (&x)[kWide<T>]) {
  to_floats<T>(in, x);
  if (bias == nullptr) return;
  float added[kWide<T>];
  load_floats(bias + column, added);
#pragma unroll
  for (int i = 0; i < kWide<T>; ++i) x[i] += added[i];
}

// ITEMS: pieces of 16 bytes a thread has under way at once.
template <class T, Activation KIND, int ITEMS>
__global__ void __launch_bounds__(kThreads) forward_pieces(ActivationForward<T> a, uint32_t pieces) {
  constexpr int kCount = kWide<T>;
  constexpr bool kGated = KIND == Activation::gated_silu;
  const auto of_row = static_cast<uint32_t>(a.width / kCount);
  const uint32_t first = blockIdx.x * (kThreads * ITEMS) + threadIdx.x;
  Words in[ITEMS], up[kGated ? ITEMS : 1];
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const uint32_t piece = first + k * kThreads;
    if (piece >= pieces) continue;
    const int64_t at = kGated ? gate_at(piece, of_row, kCount) : int64_t{piece} * kCount;
    in[k] = load_streamed(a.in + at);
    if constexpr (kGated) up[k] = load_streamed(a.in + at + a.width);
  }
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const uint32_t piece = first + k * kThreads;
    if (piece >= pieces) continue;
    float x[kCount];
    if constexpr (kGated) {
      float scale[kCount];
      to_floats<T>(in[k], x);
      to_floats<T>(up[k], scale);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = x[i] * sigmoid_of<T>(x[i]) * scale[i];
    } else {
      to_biased(in[k], a.bias, column_of(piece, of_row, kCount), x);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = gelu_of<T, KIND>(x[i]).value;
    }
    store_floats(a.out + int64_t{piece} * kCount, x);
  }
}

template <class T, Activation KIND>
__device__ inline void gelu_backward_piece(const ActivationBackward<T>& a, int64_t at, int64_t column, const Words& in,
                                           const Words& above, float (&gradient)[kWide<T>]) {
  float x[kWide<T>];
  to_biased(in, a.bias, column, x);
  to_floats<T>(above, gradient);
#pragma unroll
  for (int i = 0; i < kWide<T>; ++i) {
    const Both both = gelu_of<T, KIND>(x[i]);
    x[i] = both.value;
    gradient[i] *= both.slope;
  }
  store_floats(a.gradient + at, gradient);
  if (a.again != nullptr) store_floats(a.again + at, x);
}

template <class T, Activation KIND, int ITEMS>
__global__ void __launch_bounds__(kThreads) backward_pieces(ActivationBackward<T> a, uint32_t pieces) {
  constexpr int kCount = kWide<T>;
  constexpr bool kGated = KIND == Activation::gated_silu;
  const auto of_row = static_cast<uint32_t>(a.width / kCount);
  const uint32_t first = blockIdx.x * (kThreads * ITEMS) + threadIdx.x;
  Words in[ITEMS], above[ITEMS], up[kGated ? ITEMS : 1];
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const uint32_t piece = first + k * kThreads;
    if (piece >= pieces) continue;
    const int64_t at = kGated ? gate_at(piece, of_row, kCount) : int64_t{piece} * kCount;
    in[k] = load_streamed(a.in + at);
    if constexpr (kGated) up[k] = load_streamed(a.in + at + a.width);
    above[k] = load_streamed(a.upstream + int64_t{piece} * kCount);
  }
#pragma unroll
  for (int k = 0; k < ITEMS; ++k) {
    const uint32_t piece = first + k * kThreads;
    if (piece >= pieces) continue;
    const int64_t out = int64_t{piece} * kCount;
    if constexpr (kGated) {
      const int64_t at = gate_at(piece, of_row, kCount);
      float x[kCount], scale[kCount], upstream[kCount];
      to_floats<T>(in[k], x);
      to_floats<T>(up[k], scale);
      to_floats<T>(above[k], upstream);
#pragma unroll
      for (int i = 0; i < kCount; ++i) gate<T>(x[i], scale[i], upstream[i], x[i], scale[i], upstream[i]);
      store_floats(a.gradient + at, x);
      store_floats(a.gradient + at + a.width, scale);
      if (a.again != nullptr) store_floats(a.again + out, upstream);
    } else {
      float gradient[kCount];
      gelu_backward_piece<T, KIND>(a, out, column_of(piece, of_row, kCount), in[k], above[k], gradient);
    }
  }
}

// The same for elementwise kinds with the gradient's sums over rows: a thread keeps its columns and walks down, reading
// ahead two rows.
template <class T, Activation KIND>
__global__ void __launch_bounds__(kAcross* kDown, 4) backward_strips(ActivationBackward<T> a) {
  constexpr int kCount = kWide<T>, kAhead = 2;
  __shared__ float of_threads[kDown][kAcross * kCount + 1];
  const int64_t column = (blockIdx.x * int64_t{kAcross} + threadIdx.x) * kCount;
  const int64_t step = int64_t{gridDim.y} * kDown;
  float sums[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) sums[i] = 0;
  if (column < a.width) {
    const int64_t first = blockIdx.y * int64_t{kDown} + threadIdx.y, stride = step * a.width;
    int left = first < a.rows ? static_cast<int>((a.rows - first + step - 1) / step) : 0;  // rows of this thread
    int64_t at = first * a.width + column;
    Words in[kAhead], above[kAhead];
    const auto fetch = [&](int k, int ahead) {
      if (ahead >= left) return;
      in[k] = load_streamed(a.in + at + ahead * stride);
      above[k] = load_streamed(a.upstream + at + ahead * stride);
    };
#pragma unroll
    for (int k = 0; k < kAhead; ++k) fetch(k, k);
    for (; left > 0; left -= kAhead, at += kAhead * stride) {
#pragma unroll
      for (int k = 0; k < kAhead; ++k) {
        const Words x = in[k], dy = above[k];
        fetch(k, kAhead + k);
        if (k >= left) continue;
        float gradient[kCount];
        gelu_backward_piece<T, KIND>(a, at + k * stride, column, x, dy, gradient);
#pragma unroll
        for (int i = 0; i < kCount; ++i) sums[i] += gradient[i];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) of_threads[threadIdx.y][threadIdx.x * kCount + i] = sums[i];
  __syncthreads();
  for (int i = threadIdx.y * kAcross + threadIdx.x; i < kAcross * kCount; i += kAcross * kDown) {
    const int64_t at = blockIdx.x * int64_t{kAcross} * kCount + i;
    if (at >= a.width) continue;
    float sum = 0;
#pragma unroll
    for (int d = 0; d < kDown; ++d) sum += of_threads[d][i];
    a.partial[blockIdx.y * a.width + at] = sum;
  }
}

template <class T>
__device__ inline float biased(const T* in, const T* bias, int64_t at, int64_t width) {
  return to_float(in[at]) + (bias == nullptr ? 0.0f : to_float(bias[at % width]));
}

// Widths and addresses that 16 bytes do not divide.
template <class T, Activation KIND>
__global__ void forward_any(ActivationForward<T> a) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < a.rows * a.width;
       i += int64_t{gridDim.x} * blockDim.x) {
    if constexpr (KIND == Activation::gated_silu) {
      const T* row = a.in + i / a.width * 2 * a.width + i % a.width;
      const float g = to_float(row[0]);
      store(a.out[i], g * sigmoid_of<T>(g) * to_float(row[a.width]));
    } else {
      store(a.out[i], gelu_of<T, KIND>(biased(a.in, a.bias, i, a.width)).value);
    }
  }
}

template <class T, Activation KIND>
__global__ void backward_any(ActivationBackward<T> a) {
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < a.rows * a.width;
       i += int64_t{gridDim.x} * blockDim.x) {
    const float upstream = to_float(a.upstream[i]);
    float value;
    if constexpr (KIND == Activation::gated_silu) {
      const int64_t at = i / a.width * 2 * a.width + i % a.width;
      float of_gate, of_up;
      gate<T>(to_float(a.in[at]), to_float(a.in[at + a.width]), upstream, of_gate, of_up, value);
      store(a.gradient[at], of_gate);
      store(a.gradient[at + a.width], of_up);
    } else {
      const Both both = gelu_of<T, KIND>(biased(a.in, a.bias, i, a.width));
      value = both.value;
      store(a.gradient[i], upstream * both.slope);
    }
    if (a.again != nullptr) store(a.again[i], value);
  }
}

// Fewer pieces than this are one a thread, to fill the GPU; more are several, to have more bytes under way.
int64_t many_pieces() { return int64_t{4} * 2048 * gpu_limits().multiprocessors; }

unsigned blocks_for(int64_t items, int each) {
  const int64_t threads = kThreads * each, blocks = (items + threads - 1) / threads;
  return static_cast<unsigned>(blocks < (int64_t{1} << 31) - 1 ? blocks : (int64_t{1} << 31) - 1);
}

bool countable(int64_t pieces) { return pieces < (int64_t{1} << 32) - (1 << 16); }

template <class T, Activation KIND>
void forward_as(const ActivationForward<T>& a, GpuStream stream) {
  constexpr int kItems = KIND == Activation::gated_silu ? 2 : 4;
  const int64_t count = a.rows * a.width, pieces = count / kWide<T>;
  if (a.width % kWide<T> != 0 || !aligned(a.in) || !aligned(a.out) || !aligned(a.bias) || !countable(pieces)) {
    forward_any<T, KIND><<<blocks_for(count, 1), kThreads, 0, stream>>>(a);
  } else if (pieces < many_pieces()) {
    forward_pieces<T, KIND, 1><<<blocks_for(pieces, 1), kThreads, 0, stream>>>(a, static_cast<uint32_t>(pieces));
  } else {
    forward_pieces<T, KIND, kItems>
        <<<blocks_for(pieces, kItems), kThreads, 0, stream>>>(a, static_cast<uint32_t>(pieces));
  }
}

// Parts of the rows that blocks of `backward_strips` sum, of an array so wide.
int64_t strip_parts(int64_t rows, int64_t width, int wide) {
  const int64_t strips = (width + kAcross * wide - 1) / (kAcross * wide), needed = (rows + kDown - 1) / kDown;
  const int64_t blocks = kBlocksEach * gpu_limits().multiprocessors, parts = strips < blocks ? blocks / strips : 1;
  return parts < needed ? parts : needed;
}

template <class T, Activation KIND>
int64_t backward_as(const ActivationBackward<T>& a, GpuStream stream) {
  constexpr bool kGated = KIND == Activation::gated_silu;
  const int64_t count = a.rows * a.width, pieces = count / kWide<T>;
  const bool whole = a.width % kWide<T> == 0 && aligned(a.in) && aligned(a.upstream) && aligned(a.gradient) &&
                     aligned(a.again) && aligned(a.bias) && countable(pieces);
  if constexpr (!kGated) {
    if (whole && a.sums != nullptr) {
      const int64_t parts = strip_parts(a.rows, a.width, kWide<T>);
      const auto strips = static_cast<unsigned>((a.width + kAcross * kWide<T> - 1) / (kAcross * kWide<T>));
      backward_strips<T, KIND><<<dim3(strips, static_cast<unsigned>(parts)), dim3(kAcross, kDown), 0, stream>>>(a);
      return parts;
    }
  }
  if (!whole) {
    backward_any<T, KIND><<<blocks_for(count, 1), kThreads, 0, stream>>>(a);
  } else if (pieces < many_pieces()) {
    backward_pieces<T, KIND, 1><<<blocks_for(pieces, 1), kThreads, 0, stream>>>(a, static_cast<uint32_t>(pieces));
  } else {
    backward_pieces<T, KIND, 2><<<blocks_for(pieces, 2), kThreads, 0, stream>>>(a, static_cast<uint32_t>(pieces));
  }
  if (a.sums != nullptr)
    column_sums_gpu<T>(a.gradient, a.rows, kGated ? 2 * a.width : a.width, a.partial, a.sums, stream);
  return 0;
}

}  // namespace

int64_t activation_sum_parts(int64_t rows, int64_t width) {
  const int64_t strips = strip_parts(rows, width, /*wide=*/8), plain = column_sum_parts(rows);
  return strips > plain ? strips : plain;
}

template <class T>
void activation_forward_gpu(Activation kind, const ActivationForward<T>& arrays, void* stream) {
  if (arrays.rows * arrays.width == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  if (kind == Activation::gelu_tanh) forward_as<T, Activation::gelu_tanh>(arrays, queue);
  if (kind == Activation::gelu_erf) forward_as<T, Activation::gelu_erf>(arrays, queue);
  if (kind == Activation::gated_silu) forward_as<T, Activation::gated_silu>(arrays, queue);
  check_launch("activation_forward");
}

template <class T>
int64_t activation_backward_gpu(Activation kind, const ActivationBackward<T>& arrays, void* stream) {
  if (arrays.rows * arrays.width == 0) return 0;
  const auto queue = static_cast<GpuStream>(stream);
  const int64_t parts = kind == Activation::gelu_tanh  ? backward_as<T, Activation::gelu_tanh>(arrays, queue)
                        : kind == Activation::gelu_erf ? backward_as<T, Activation::gelu_erf>(arrays, queue)
                                                       : backward_as<T, Activation::gated_silu>(arrays, queue);
  check_launch("activation_backward");
  return parts;
}

template void activation_forward_gpu(Activation, const ActivationForward<float>&, void*);
template int64_t activation_backward_gpu(Activation, const ActivationBackward<float>&, void*);
template void activation_forward_gpu(Activation, const ActivationForward<Bfloat16>&, void*);
template int64_t activation_backward_gpu(Activation, const ActivationBackward<Bfloat16>&, void*);
template void activation_forward_gpu(Activation, const ActivationForward<Half>&, void*);
template int64_t activation_backward_gpu(Activation, const ActivationBackward<Half>&, void*);

}  // namespace hyperion::kernels
