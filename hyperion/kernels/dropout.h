// Dropout whose mask is a function of (seed, stream, step, micro-batch, element): recomputed in the backward, never
// stored, and the same on every device and after every resume.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/base/random.h"

namespace hyperion::kernels {

struct RandomPlace {
  base::StreamKey key;
  uint32_t step, micro_batch;
};

// Zeroes each element with probability p in [0, 1) and scales the rest by 1 / (1 - p); fp32, bf16 or fp16;
// differentiable.
at::Tensor dropout(const at::Tensor& input, double p, const RandomPlace& place);

}  // namespace hyperion::kernels
