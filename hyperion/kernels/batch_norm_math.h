// The raw entry points of batch norm on a GPU, channels last: rows of `channels`, one a pixel. Statistics and
// parameters are fp32.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// How many parts the rows are summed in.
int64_t batch_norm_parts(int64_t rows, int64_t channels);

template <class T>
struct BatchNormForward {
  const T *x, *residual;  // residual: added before the activation; may be null
  T* y;
  const float *weight, *bias;
  float *running_mean, *running_var;  // moved by `momentum`; used in place of the batch's unless `training`
  float *mean, *inverse;              // out, of the batch: what the backward needs
  float *scale, *shift;               // room: y = x * scale + shift
  float* partial;                     // room: batch_norm_parts x 2 x channels
  int64_t rows, channels;
  float momentum, epsilon;
  bool training, relu;
};

template <class T>
struct BatchNormBackward {
  const T *x, *y, *dy;
  T *dx, *dresidual;  // dresidual may be null
  const float *weight, *mean, *inverse;
  float *dweight, *dbias;
  float* partial;
  int64_t rows, channels;
  bool relu;
};

template <class T>
void batch_norm_forward_gpu(const BatchNormForward<T>& norm, void* stream);
template <class T>
void batch_norm_backward_gpu(const BatchNormBackward<T>& norm, void* stream);

}  // namespace hyperion::kernels
