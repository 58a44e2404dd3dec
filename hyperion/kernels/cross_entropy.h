// The loss of next-token prediction and of classification.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// Mean of -log p(target) over all positions whose target is not -100, reduced in fp32 whatever the type of the logits.
// logits: [..., classes]; targets: int64 [...]. Beside the logits it holds a few numbers a row, and in the backward
// their gradient, in the logits' own type. Kernels of ours on a GPU, elsewhere some rows at a time. Targets of a
// floating type are parts of classes, [rows, at most classes], as blended images have them.
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

// The same in plain tensor operations, which hold the logits once more in fp32.
at::Tensor cross_entropy_reference(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace hyperion::kernels
