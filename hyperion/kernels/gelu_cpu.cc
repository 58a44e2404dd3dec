#include <ATen/Parallel.h>

#include "hyperion/kernels/fast_exp.h"
#include "hyperion/kernels/gelu_math.h"

namespace hyperion::kernels {
namespace {

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
