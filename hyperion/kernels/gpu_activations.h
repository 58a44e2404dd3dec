// The activations of one element with their slopes, as kernels share them. For .cu files only.
#pragma once
#include "hyperion/kernels/activations_math.h"
#include "hyperion/kernels/gpu_vectors.h"

namespace hyperion::kernels {

constexpr float kPerNatural = 1.442695041f;  // log2(e)

struct Both {
  float value, slope;
};

// Precise where the type is; the narrow types round away what the quick forms lose.
template <class T>
__device__ inline float sigmoid_of(float x) {
  if constexpr (sizeof(T) == 4) {
    return 1.0f / (1.0f + expf(-x));
  } else {
    return quick_reciprocal(1.0f + quick_exp2(-kPerNatural * x));
  }
}

// The chance of a normal number below x, and its density there.
template <class T>
__device__ inline Both normal_at(float x) {
  constexpr float kDensity = 0.3989422804f;
  if constexpr (sizeof(T) == 4) {
    return {0.5f * (1.0f + erff(x * 0.7071067811865476f)), kDensity * expf(-0.5f * x * x)};
  } else {
    // The tail is exp(-x^2 / 2) times a polynomial of t = 1 / (1 + 0.39 x), within 6e-5 of it everywhere.
    const float e = quick_exp2(-0.5f * kPerNatural * x * x), t = quick_reciprocal(1.0f + 0.39f * fabsf(x));
    float p = -0.08719505829f;
    p = p * t + 0.1650627349f;
    p = p * t + 0.1081213923f;
    p = p * t + 0.1585075879f;
    p = p * t + 0.1554733999f;
    const float tail = p * t * e;
    return {x < 0 ? tail : 1.0f - tail, kDensity * e};
  }
}

template <class T, Activation KIND>
__device__ inline Both gelu_of(float x) {
  if constexpr (KIND == Activation::gelu_tanh) {
    // (1 + tanh u) / 2 is the logistic function of 2 u.
    constexpr float kScale = 2 * 0.7978845608028654f, kCube = 0.044715f;
    const float square = x * x, s = sigmoid_of<T>(x * (kScale + kScale * kCube * square));
    const float value = x * s;
    return {value, s + value * (1.0f - s) * (kScale + 3 * kScale * kCube * square)};
  } else {
    const Both normal = normal_at<T>(x);
    return {x * normal.value, normal.value + x * normal.slope};
  }
}

template <class T>
__device__ inline void gate(float g, float up, float upstream, float& of_gate, float& of_up, float& value) {
  const float s = sigmoid_of<T>(g), silu = g * s;
  value = silu * up;
  of_up = upstream * silu;
  of_gate = upstream * up * (s + silu * (1.0f - s));
}

}  // namespace hyperion::kernels
