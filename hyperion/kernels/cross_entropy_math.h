// The raw entry points of cross entropy on a GPU: losses, and gradients beside the logits or in their place.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// losses[row] = -log p(target), and where `gradients` the row becomes p - (1 at the target); a row whose target is
// `ignored` has loss 0 and becomes 0. Without `gradients` the logits stay. A target that is no class: not a number.
template <class T>
struct CrossEntropyRows {
  T* logits;
  const int64_t* targets;
  float* losses;
  int64_t rows, classes, ignored;
  bool gradients;
  float *tops, *shares;  // where not null, out: each row's largest logit, and 1 / the sum of exponentials below it
};
template <class T>
void cross_entropy_gpu(const CrossEntropyRows<T>& rows, void* stream);

// gradient = (p - (1 at the target)) * factor * share, from what the above left; 0 for rows that are ignored.
template <class T>
struct CrossEntropyBackward {
  const T* logits;
  const int64_t* targets;
  const float *tops, *shares;
  const float *factor, *share;  // one number each, on the GPU
  T* gradient;
  int64_t rows, classes, ignored;
};
template <class T>
void cross_entropy_backward_gpu(const CrossEntropyBackward<T>& rows, void* stream);

// mean = the sum of the losses x share, share = 1 / the targets that are not ignored; nothing counted: 1.
struct MeanLoss {
  const float* losses;
  const int64_t* targets;
  int64_t rows, ignored;
  float *mean, *share;
};
void mean_loss_gpu(const MeanLoss& all, void* stream);

// out = in x factor x share, one number each, on the GPU; both 16 bytes aligned.
template <class From, class T>
void scale_gpu(const From* in, T* out, int64_t count, const float* factor, const float* share, void* stream);

}  // namespace hyperion::kernels
