// The raw entry points of dropout: out[i] = in[i] kept and scaled, or 0; with a bias added before and a residual after.
#pragma once
#include <cstdint>

#include "hyperion/base/random.h"
#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

struct DropoutNumbers {
  base::StreamKey key;
  uint32_t step, micro_batch;
  float p, scale;
  const uint32_t* step_at = nullptr;  // on the GPU: read in place of `step`; null: none
};

constexpr float dropout_element(float value, uint32_t bits, const DropoutNumbers& numbers) {
  return base::unit_float(bits) < numbers.p ? 0.0f : value * numbers.scale;
}

// [rows, width]; bias (of width) and residual may be null. The element's number is its place in memory.
template <class T>
struct DropoutTensors {
  const T *in, *bias, *residual;
  T* out;
  int64_t rows, width;
};

template <class T>
constexpr void dropout_element_of(const DropoutTensors<T>& t, int64_t i, uint32_t bits, const DropoutNumbers& numbers) {
  const float in = to_float(t.in[i]), value = t.bias != nullptr ? in + to_float(t.bias[i % t.width]) : in;
  const float dropped = dropout_element(value, bits, numbers);
  store(t.out[i], t.residual != nullptr ? to_float(t.residual[i]) + dropped : dropped);
}

template <class T>
void dropout_cpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers);
template <class T>
void dropout_gpu(const DropoutTensors<T>& tensors, const DropoutNumbers& numbers, void* stream);

void set_step_gpu(uint32_t* at, uint32_t step, void* stream);  // by a launch: no host memory to keep alive

}  // namespace hyperion::kernels
