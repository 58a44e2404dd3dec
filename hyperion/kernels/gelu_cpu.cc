#include <ATen/Parallel.h>

#include <algorithm>
#include <bit>

#include "hyperion/kernels/gelu_math.h"

namespace hyperion::kernels {
namespace {

// exp within 2 ulp over [-87, 87], beyond which it is held: 2^n times a polynomial on [-ln2/2, ln2/2]. No call and no
// branch, so that the compiler turns loops over it into vector code.
inline float fast_exp(float x) {
  x = std::min(std::max(x, -87.0f), 87.0f);
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const float n = (x * 1.44269504f + kRound) - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

constexpr float kSlope = 1.5957691216f, kCubic = 0.044715f;  // 2 sqrt(2/pi)

// 0.5 (1 + tanh(u)) is the logistic function of 2 u.
inline float gate(float x) { return 1.0f / (1.0f + fast_exp(-kSlope * (x + kCubic * x * x * x))); }

inline float slope(float x) {
  const float s = gate(x);
  return s + x * s * (1.0f - s) * kSlope * (1.0f + 3.0f * kCubic * x * x);
}

constexpr int64_t kGeluGrain = 1 << 13;

}  // namespace

template <class T>
void gelu_cpu(const T* in, T* out, int64_t count) {
  at::parallel_for(0, count, kGeluGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float x = to_float(in[i]);
      store(out[i], x * gate(x));
    }
  });
}

template <class T>
void gelu_backward_cpu(const T* in, const T* upstream, T* out, int64_t count) {
  at::parallel_for(0, count, kGeluGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) store(out[i], to_float(upstream[i]) * slope(to_float(in[i])));
  });
}

template void gelu_cpu(const float*, float*, int64_t);
template void gelu_cpu(const Bfloat16*, Bfloat16*, int64_t);
template void gelu_backward_cpu(const float*, const float*, float*, int64_t);
template void gelu_backward_cpu(const Bfloat16*, const Bfloat16*, Bfloat16*, int64_t);

}  // namespace hyperion::kernels
