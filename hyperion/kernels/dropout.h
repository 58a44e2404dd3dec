// Dropout whose mask is a function of (seed, stream, step, micro-batch, element): recomputed in the backward, never
// stored, and the same on every device and after every resume. Of a shard of a tensor it is the shard of the whole's.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/base/random.h"
#include "hyperion/kernels/dropout_math.h"
#include "hyperion/kernels/small_writes.h"

namespace hyperion::kernels {

struct RandomPlace {
  base::StreamKey key;
  uint32_t step, micro_batch;
  ElementMap elements = {};
};

// Zeroes each element with probability p in [0, 1) and scales the rest by 1 / (1 - p); fp32, bf16 or fp16;
// differentiable.
at::Tensor dropout(const at::Tensor& input, double p, const RandomPlace& place);

// residual + dropout(input + bias), in one pass and of the same mask. input, residual: [..., width]; bias: [width], may
// be undefined. Differentiable; keeps no tensor.
at::Tensor bias_dropout_residual(const at::Tensor& input, const at::Tensor& bias, const at::Tensor& residual, double p,
                                 const RandomPlace& place);
at::Tensor bias_dropout_residual_reference(const at::Tensor& input, const at::Tensor& bias, const at::Tensor& residual,
                                           double p, const RandomPlace& place);

// Sends the step's number to the device with `writes`. While a graph records (device/graph.h) dropout takes the step
// from there in place of its own number, so that each replay drops by the step set last. Never to be called while
// recording.
void set_recorded_step(at::Device device, uint32_t step, SmallWrites& writes);

}  // namespace hyperion::kernels
