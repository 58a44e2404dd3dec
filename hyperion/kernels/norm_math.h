// The raw entry points of layer norm and RMS norm on a GPU. Rows lie one after another; statistics are fp32.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// bias and mean null: RMS norm.
template <class T>
struct NormForward {
  const T *x, *weight, *bias;
  T* y;
  float *mean, *inverse;  // of each row; of the deviation or of the root mean square
  int64_t rows, width;
  float epsilon;
  bool known;     // the statistics are given, not found: y again
  int64_t pitch;  // of y, from row to row
};

template <class T>
struct NormBackward {
  const T *x, *weight, *bias, *dy;  // bias: for y alone; null: RMS norm
  const T* residual;                // a gradient to add to dx; may be null
  const float *mean, *inverse;
  T *dx, *y;       // y: the output again; may be null
  bool with_sums;  // of dx over its rows
  float* partial;  // room for norm_backward_parts(rows) parts
  int64_t rows, width;
};

int64_t norm_backward_parts(int64_t rows);  // at most

template <class T>
void norm_forward_gpu(const NormForward<T>& norm, void* stream);
// Leaves sums over rows in parts, and tells how many: the weight's gradient, the bias's where there is a mean, and dx's
// sums where asked for, each `width` wide, behind each other.
template <class T>
int64_t norm_backward_gpu(const NormBackward<T>& norm, void* stream);

}  // namespace hyperion::kernels
