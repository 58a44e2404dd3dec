// bf16 as its 16 bits: conversions that CUDA, HIP and the CPU share, rounding to nearest even.
#pragma once
#include <bit>
#include <cstdint>

namespace hyperion::kernels {

struct Bfloat16 {
  uint16_t bits;
};

constexpr float to_float(float value) { return value; }
constexpr float to_float(Bfloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

constexpr void store(float& out, float value) { out = value; }
constexpr void store(Bfloat16& out, float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  out.bits = nan ? uint16_t{0x7fc0} : static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace hyperion::kernels
