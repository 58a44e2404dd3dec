// The raw entry points of batch norm on a GPU, channels last: rows of `channels`, one a pixel. Statistics and
// parameters are fp32.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// How many parts the rows are summed in, at most.
int64_t batch_norm_parts(int64_t rows, int64_t channels);
// Bytes of a mask of what passed the activation, a bit an element.
int64_t batch_norm_mask_bytes(int64_t elements, int64_t element_bytes);

template <class T>
struct BatchNormForward {
  const T *x, *residual;  // residual: added before the activation; may be null
  T* y;
  uint8_t* mask;  // out: what passed the activation; may be null
  const float *weight, *bias;
  float *running_mean, *running_var;  // moved by `momentum`, unless it is 0
  int64_t* batches;                   // counted up by one; may be null
  float* numbers;  // out: mean, inverse deviation, scale and shift, `channels` each; y = x scale + shift
  float* partial;  // room: batch_norm_parts x 2 x channels
  int64_t rows, channels;
  float momentum, epsilon;
  bool relu;
};

// With an activation: `mask` where a residual was added, else it is found again from x. dresidual goes with the mask,
// and so may a second gradient that is added to dy.
template <class T>
struct BatchNormBackward {
  const T *x, *dy, *more;  // more: may be null
  const uint8_t* mask;
  T *dx, *dresidual;
  const float* numbers;
  float *dweight, *dbias;
  float* partial;  // room: (batch_norm_parts x 2 + 3) x channels
  int64_t rows, channels;
  bool relu;
};

template <class T>
void batch_norm_forward_gpu(const BatchNormForward<T>& norm, void* stream);
template <class T>
void batch_norm_backward_gpu(const BatchNormBackward<T>& norm, void* stream);

}  // namespace hyperion::kernels
