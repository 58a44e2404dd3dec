// bf16 and fp16 as their 16 bits: conversions that CUDA, HIP and the CPU share, rounding to nearest even.
#pragma once
#include <bit>
#include <cstdint>

namespace hyperion::kernels {

struct Bfloat16 {
  uint16_t bits;
};

struct Half {
  uint16_t bits;
};

constexpr float to_float(float value) { return value; }
constexpr float to_float(Bfloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

constexpr float to_float(Half value) {
  const uint32_t sign = (value.bits & 0x8000u) << 16, exponent = (value.bits >> 10) & 31u,
                 fraction = value.bits & 1023u;
  if (exponent == 0) {  // zero and the numbers below 2^-14, in steps of 2^-24
    const float size = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -size : size;
  }
  return std::bit_cast<float>(sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13);
}

constexpr void store(float& out, float value) { out = value; }
constexpr void store(Bfloat16& out, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  out.bits = nan ? uint16_t{0x7fc0} : static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr void store(Half& out, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffffu;
  uint32_t narrow = 0;
  if (size > 0x7f800000u) {
    narrow = 0x7e00;  // not a number
  } else if (size >= 0x477ff000u) {
    narrow = 0x7c00;  // from 65520 on, infinity
  } else if (size < 0x38800000u) {
    // Below 2^-14: 0.5 has a last place of 2^-24, so adding it rounds to a step of a small fp16.
    narrow = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
  } else {
    narrow = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
  }
  out.bits = static_cast<uint16_t>(bits >> 16 & 0x8000u) | static_cast<uint16_t>(narrow);
}

}  // namespace hyperion::kernels
