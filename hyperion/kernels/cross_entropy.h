// The loss of next-token prediction and of classification.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// Mean of -log p(target) over all positions whose target is not -100, reduced in fp32 whatever the type of the logits.
// logits: [..., classes]; targets: int64 [...]. Works through some rows at a time: beside the logits it holds one
// number a row, and in the backward their gradient, in the logits' own type. Targets of a floating type are parts of
// classes, [rows, at most classes], as blended images have them.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

// The same in plain tensor operations, which hold the logits once more in fp32.
at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace hyperion::kernels
