// The raw entry points of activations on a GPU, forward and backward. The backward can write the activated value
// again in the same pass, so that it need not be kept, and sum what it writes over the rows: a bias's gradient.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// gated_silu: a row of the input is [gate, up], each `width` wide; the others are elementwise.
enum class Activation { gelu_tanh, gelu_erf, gated_silu };

template <class T>
struct ActivationForward {
  const T* in;
  T* out;
  int64_t rows, width;      // of the output
  const T* bias = nullptr;  // [width], added to the input of elementwise kinds; may be null
};

template <class T>
struct ActivationBackward {
  const T *in, *upstream;
  T *gradient, *again;  // again: the activated value; may be null
  T* sums;              // of the gradient over its rows; may be null
  float* partial;       // room for them: activation_sum_parts x the input's width
  int64_t rows, width;  // of the output
  const T* bias = nullptr;
};

int64_t activation_sum_parts(int64_t rows, int64_t width);  // at most

template <class T>
void activation_forward_gpu(Activation kind, const ActivationForward<T>& arrays, void* stream);
// How many parts of the sums are left to add up; 0: they are whole.
template <class T>
int64_t activation_backward_gpu(Activation kind, const ActivationBackward<T>& arrays, void* stream);

}  // namespace hyperion::kernels
