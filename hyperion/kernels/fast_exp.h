// exp for loops on a CPU.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

namespace hyperion::kernels {

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

}  // namespace hyperion::kernels
