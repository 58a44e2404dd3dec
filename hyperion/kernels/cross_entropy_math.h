// The raw entry point of cross entropy on a GPU: logits become their gradients where they lie.
#pragma once
#include <cstdint>

#include "hyperion/kernels/narrow_floats.h"

namespace hyperion::kernels {

// losses[row] = -log p(target), and the row becomes p - (1 at the target); a row whose target is `ignored` has loss 0
// and, where `gradients`, becomes 0. Without `gradients` the logits stay.
template <class T>
struct CrossEntropyRows {
  T* logits;
  const int64_t* targets;
  float* losses;
  int64_t rows, classes, ignored;
  bool gradients;
};

template <class T>
void cross_entropy_gpu(const CrossEntropyRows<T>& rows, void* stream);

}  // namespace hyperion::kernels
