// The raw entry points of dropout: out[i] = in[i] kept and scaled, or 0.
#pragma once
#include <cstdint>

#include "hyperion/base/random.h"
#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

struct DropoutNumbers {
  base::StreamKey key;
  uint32_t step, micro_batch;
  float p, scale;
};

template <class T>
constexpr void dropout_element(const T* in, T* out, int64_t i, uint32_t bits, const DropoutNumbers& numbers) {
  store(out[i], base::unit_float(bits) < numbers.p ? 0.0f : to_float(in[i]) * numbers.scale);
}

template <class T>
void dropout_cpu(const T* in, T* out, int64_t count, const DropoutNumbers& numbers);
template <class T>
void dropout_gpu(const T* in, T* out, int64_t count, const DropoutNumbers& numbers, void* stream);

}  // namespace hyperion::kernels
