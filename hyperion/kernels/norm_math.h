// The raw entry points of layer norm and RMS norm on a GPU. Rows lie one after another; statistics are fp32.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// bias and mean null: RMS norm. y may be null where only the statistics are wanted.
template <class T>
struct NormForward {
  const T *x, *weight, *bias;
  T* y;
  float *mean, *inverse;  // of each row; of the deviation or of the root mean square
  int64_t rows, width;
  float epsilon;
};

// y again, from the statistics.
template <class T>
struct NormAgain {
  const T *x, *weight, *bias;
  const float *mean, *inverse;
  T* y;
  int64_t rows, width;
};

template <class T>
struct NormBackward {
  const T *x, *weight, *dy, *residual;  // residual: a gradient to add to dx; may be null
  const float *mean, *inverse;
  T* dx;
  T *dweight, *dbias;  // may be null
  float* partial;      // norm_backward_parts(rows) x 2 x width floats
  int64_t rows, width;
};

int64_t norm_backward_parts(int64_t rows);

template <class T>
void norm_forward_gpu(const NormForward<T>& norm, void* stream);
template <class T>
void norm_again_gpu(const NormAgain<T>& norm, void* stream);
template <class T>
void norm_backward_gpu(const NormBackward<T>& norm, void* stream);

}  // namespace hyperion::kernels
