// Numbers in 8 bits as CUDA, HIP and the CPU share them, and the raw entry points that make matrices of them on a GPU.
// e4m3: 4 bits of exponent, for values and weights; e5m2: a wider range with a bit less, for gradients.
#pragma once
#include <bit>
#include <cstdint>

#include "hyperion/kernels/activations_math.h"
#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::blocks {

enum class Fp8Type { e4m3, e5m2 };

constexpr float fp8_largest(Fp8Type type) { return type == Fp8Type::e4m3 ? 448.0f : 57344.0f; }

// To the nearest, ties to even; what is beyond the largest becomes the largest.
constexpr uint8_t to_fp8(float value, Fp8Type type) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80u);
  if (size > 0x7f800000u) return sign | 0x7f;  // not a number
  const bool fine = type == Fp8Type::e4m3;
  const float largest = fp8_largest(type), given = std::bit_cast<float>(size), held = given < largest ? given : largest;
  if (held < (fine ? 0x1p-6f : 0x1p-14f)) {
    // Below the normal numbers: adding one whose last place is their step rounds to it.
    const float steps = fine ? 0x1p14f : 0x1p7f;
    return sign | static_cast<uint8_t>(std::bit_cast<uint32_t>(held + steps) - std::bit_cast<uint32_t>(steps));
  }
  const uint32_t dropped = fine ? 20 : 21, offset = fine ? 120u << 3 : 112u << 2;
  uint32_t kept = std::bit_cast<uint32_t>(held);
  kept += (1u << (dropped - 1)) - 1 + ((kept >> dropped) & 1u);
  return sign | static_cast<uint8_t>((kept >> dropped) - offset);
}

// What becomes of the values of a matrix [rows, columns] that is found a tile at a time. rows: a multiple of 4,
// columns: of 8. Each pointer but `largest` may be null.
struct Fp8Tiles {
  int64_t rows, columns;
  Fp8Type type;
  const float* scale;              // what values are multiplied with; null: only `largest` and `sums` are found
  float* largest;                  // raised to the largest size met
  uint8_t *straight, *transposed;  // [rows, columns] and [columns, rows]
  // In place of one scale and its `largest`: of each row for the straight form, of each column for the transposed one.
  // Raised where there is neither form yet, read where there is.
  float *largest_of_rows, *largest_of_columns;
  float* sums;  // [fp8_tile_rows(rows), columns]: of the columns, before scaling
};
int64_t fp8_tile_rows(int64_t rows);

struct Fp8NormInput {
  const kernels::Bfloat16 *x, *weight, *bias;  // bias and mean null: RMS norm
  const float *mean, *inverse;
};

void fp8_values_gpu(const kernels::Bfloat16* x, const Fp8Tiles& tiles, void* stream);
void fp8_norm_gpu(const Fp8NormInput& norm, const Fp8Tiles& tiles, void* stream);
// gated_silu: x is [rows, 2 columns]. With `upstream` also its gradient is written, shaped as x.
void fp8_activation_gpu(kernels::Activation kind, const kernels::Bfloat16* x, const kernels::Bfloat16* upstream,
                        kernels::Bfloat16* gradient, const Fp8Tiles& tiles, void* stream);

// Products take the inverses from addresses of 16 bytes: they lie so many floats apart.
constexpr int64_t kFp8Apart = 4;

// Of `count` numbers: the history moves on by `largest` where `shift`, and the scale follows the largest of it; else
// the scale follows `largest` alone. Nothing met: the scale stays. history: [length, all], the newest first.
struct Fp8Numbers {
  float *scale, *inverse, *largest, *history;
  int64_t first, count, all, length;
  bool shift;
};
void fp8_numbers_gpu(const Fp8Numbers& numbers, void* stream);

// One of them; three a map: input, weight, gradient.
constexpr void fp8_number(const Fp8Numbers& n, int64_t i) {
  float most = n.largest[i];
  if (n.shift) {
    for (int64_t age = n.length - 1; age > 0; --age) {
      const float met = n.history[age * n.all + i] = n.history[(age - 1) * n.all + i];
      most = most < met ? met : most;
    }
    n.history[i] = n.largest[i];
    n.largest[i] = 0;
  }
  if (!(most > 0) || most > 3e38f) return;
  const float scale = fp8_largest(i % 3 == 2 ? Fp8Type::e5m2 : Fp8Type::e4m3) / most;
  n.scale[i] = scale < 0x1p100f ? scale : 0x1p100f;
  n.inverse[kFp8Apart * i] = 1.0f / n.scale[i];
}

}  // namespace hyperion::blocks
