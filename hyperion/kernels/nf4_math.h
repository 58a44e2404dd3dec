// The raw entry points of NF4, and the maths of one element.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

constexpr int64_t kNf4Block = 64;

struct Nf4Scales {
  const int8_t* magnitudes;
  const float* group_scales;
  float mean_magnitude;
  int group_shift;  // 2^group_shift blocks share a scale
};

// The sixteen values of the QLoRA paper's appendix E.
constexpr float nf4_value(int code) {
  constexpr float values[16] = {-1.0f,
                                -0.6961928009986877f,
                                -0.5250730514526367f,
                                -0.39491748809814453f,
                                -0.28444138169288635f,
                                -0.18477343022823334f,
                                -0.09105003625154495f,
                                0.0f,
                                0.07958029955625534f,
                                0.16093020141124725f,
                                0.24611230194568634f,
                                0.33791524171829224f,
                                0.44070982933044434f,
                                0.5626170039176941f,
                                0.7229568362236023f,
                                1.0f};
  return values[code];
}

constexpr uint8_t nf4_code(float value) {
  uint8_t code = 0;
  for (int i = 0; i < 15; ++i) code += value > 0.5f * (nf4_value(i) + nf4_value(i + 1)) ? 1 : 0;
  return code;
}

// Signed squares: byte b of a group with scale s stands for s (b/127)^2 with b's sign.
constexpr float nf4_magnitude(const Nf4Scales& scales, int64_t block) {
  const float part = static_cast<float>(scales.magnitudes[block]) * (1.0f / 127);
  const float magnitude = scales.mean_magnitude +
                          scales.group_scales[block >> scales.group_shift] * (part < 0 ? -part * part : part * part);
  return magnitude > 0 ? magnitude : 0;
}

// Where they go: `width` elements of a row together, a multiple of 8 unless rows are close, and rows `pitch` apart.
template <class T>
struct Nf4Rows {
  T* at;
  int64_t count, width, pitch;
};

// `count` elements; codes [(count + 1) / 2].
template <class T>
void nf4_pack_cpu(const T* in, const Nf4Scales& scales, uint8_t* codes, int64_t count);
template <class T>
void nf4_pack_gpu(const T* in, const Nf4Scales& scales, uint8_t* codes, int64_t count, void* stream);
template <class T>
void nf4_unpack_cpu(const uint8_t* codes, const Nf4Scales& scales, T* out, int64_t count);
template <class T>
void nf4_unpack_gpu(const uint8_t* codes, const Nf4Scales& scales, const Nf4Rows<T>& out, void* stream);

}  // namespace hyperion::kernels
