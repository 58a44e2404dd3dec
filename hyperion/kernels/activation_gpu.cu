#include "hyperion/kernels/activation_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {
namespace {

constexpr int kThreads = 256;

// Precise where the type is; the narrow types round away what the fast forms lose.
template <class T>
__device__ inline float tanh_of(float x) {
  if constexpr (sizeof(T) == 4) {
    return tanhf(x);
  } else {
    return 1.0f - 2.0f / (1.0f + __expf(2.0f * x));
  }
}
template <class T>
__device__ inline float sigmoid_of(float x) {
  if constexpr (sizeof(T) == 4) {
    return 1.0f / (1.0f + expf(-x));
  } else {
    return __fdividef(1.0f, 1.0f + __expf(-x));
  }
}

struct Both {
  float value, slope;
};

template <class T, Activation KIND>
__device__ inline Both gelu_of(float x) {
  if constexpr (KIND == Activation::gelu_tanh) {
    constexpr float kScale = 0.7978845608028654f, kCube = 0.044715f;
    const float t = tanh_of<T>(kScale * (x + kCube * x * x * x));
    const float inner = kScale * (1.0f + 3.0f * kCube * x * x);
    return {0.5f * x * (1.0f + t), 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner};
  } else {
    const float below = 0.5f * (1.0f + erff(x * 0.7071067811865476f));
    const float density = 0.3989422804014327f * (sizeof(T) == 4 ? expf(-0.5f * x * x) : __expf(-0.5f * x * x));
    return {x * below, below + x * density};
  }
}

template <class T, Activation KIND>
__global__ void __launch_bounds__(kThreads) forward_pieces(ActivationForward<T> a) {
  constexpr int kCount = kWide<T>;
  const auto pieces = a.rows * a.width / kCount;
  const auto of_row = static_cast<uint32_t>(a.width / kCount);
  for (int64_t piece = blockIdx.x * int64_t{kThreads} + threadIdx.x; piece < pieces;
       piece += int64_t{gridDim.x} * kThreads) {
    float x[kCount];
    if constexpr (KIND == Activation::gated_silu) {
      const uint32_t row = static_cast<uint32_t>(piece) / of_row;  // 32 bits: dividing 64 takes longer than the bytes
      const int64_t at = row * 2 * a.width + (piece - int64_t{row} * of_row) * kCount;
      float up[kCount];
      load_floats(a.in + at, x);
      load_floats(a.in + at + a.width, up);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = x[i] * sigmoid_of<T>(x[i]) * up[i];
    } else {
      load_floats(a.in + piece * kCount, x);
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] = gelu_of<T, KIND>(x[i]).value;
    }
    store_floats(a.out + piece * kCount, x);
  }
}

template <class T>
__device__ inline void gate(float g, float up, float upstream, float& of_gate, float& of_up, float& value) {
  const float s = sigmoid_of<T>(g), silu = g * s;
  value = silu * up;
  of_up = upstream * silu;
  of_gate = upstream * up * s * (1.0f + g * (1.0f - s));
}

template <class T, Activation KIND>
__global__ void __launch_bounds__(kThreads) backward_pieces(ActivationBackward<T> a) {
  constexpr int kCount = kWide<T>;
  const auto pieces = a.rows * a.width / kCount;
  const auto of_row = static_cast<uint32_t>(a.width / kCount);
  for (int64_t piece = blockIdx.x * int64_t{kThreads} + threadIdx.x; piece < pieces;
       piece += int64_t{gridDim.x} * kThreads) {
    float x[kCount], upstream[kCount], again[kCount];
    if constexpr (KIND == Activation::gated_silu) {
      const uint32_t row = static_cast<uint32_t>(piece) / of_row;  // 32 bits: dividing 64 takes longer than the bytes
      const int64_t at = row * 2 * a.width + (piece - int64_t{row} * of_row) * kCount;
      float up[kCount];
      load_floats(a.in + at, x);
      load_floats(a.in + at + a.width, up);
      load_floats(a.upstream + piece * kCount, upstream);
#pragma unroll
      for (int i = 0; i < kCount; ++i) gate<T>(x[i], up[i], upstream[i], x[i], up[i], again[i]);
      store_floats(a.gradient + at, x);
      store_floats(a.gradient + at + a.width, up);
    } else {
      load_floats(a.in + piece * kCount, x);
      load_floats(a.upstream + piece * kCount, upstream);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const Both both = gelu_of<T, KIND>(x[i]);
        again[i] = both.value;
        upstream[i] *= both.slope;
      }
      store_floats(a.gradient + piece * kCount, upstream);
    }
    if (a.again != nullptr) store_floats(a.again + piece * kCount, again);
  }
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
      store(a.out[i], gelu_of<T, KIND>(to_float(a.in[i])).value);
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
      const Both both = gelu_of<T, KIND>(to_float(a.in[i]));
      value = both.value;
      store(a.gradient[i], upstream * both.slope);
    }
    if (a.again != nullptr) store(a.again[i], value);
  }
}

// Enough blocks that each thread has one piece, up to what a grid holds: the fewer turns, the more loads in flight.
unsigned blocks_for(int64_t items) {
  const int64_t blocks = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(blocks < (1 << 20) ? blocks : 1 << 20);
}

bool countable(int64_t pieces) { return pieces < (int64_t{1} << 32); }

template <class T, Activation KIND>
void forward_as(const ActivationForward<T>& a, GpuStream stream) {
  const int64_t count = a.rows * a.width;
  if (a.width % kWide<T> == 0 && aligned(a.in) && aligned(a.out) && countable(count / kWide<T>)) {
    forward_pieces<T, KIND><<<blocks_for(count / kWide<T>), kThreads, 0, stream>>>(a);
  } else {
    forward_any<T, KIND><<<blocks_for(count), kThreads, 0, stream>>>(a);
  }
}

template <class T, Activation KIND>
void backward_as(const ActivationBackward<T>& a, GpuStream stream) {
  const int64_t count = a.rows * a.width;
  const bool whole = a.width % kWide<T> == 0 && aligned(a.in) && aligned(a.upstream) && aligned(a.gradient) &&
                     aligned(a.again) && countable(count / kWide<T>);
  if (whole) {
    backward_pieces<T, KIND><<<blocks_for(count / kWide<T>), kThreads, 0, stream>>>(a);
  } else {
    backward_any<T, KIND><<<blocks_for(count), kThreads, 0, stream>>>(a);
  }
}

}  // namespace

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
void activation_backward_gpu(Activation kind, const ActivationBackward<T>& arrays, void* stream) {
  if (arrays.rows * arrays.width == 0) return;
  const auto queue = static_cast<GpuStream>(stream);
  if (kind == Activation::gelu_tanh) backward_as<T, Activation::gelu_tanh>(arrays, queue);
  if (kind == Activation::gelu_erf) backward_as<T, Activation::gelu_erf>(arrays, queue);
  if (kind == Activation::gated_silu) backward_as<T, Activation::gated_silu>(arrays, queue);
  check_launch("activation_backward");
}

#define HYPERION_ACTIVATION(T)                                                          \
  template void activation_forward_gpu(Activation, const ActivationForward<T>&, void*); \
  template void activation_backward_gpu(Activation, const ActivationBackward<T>&, void*);
HYPERION_ACTIVATION(float)
HYPERION_ACTIVATION(Bfloat16)
HYPERION_ACTIVATION(Half)
#undef HYPERION_ACTIVATION

}  // namespace hyperion::kernels
