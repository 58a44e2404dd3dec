// The loss of next-token prediction.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// Mean of -log p(target) over all positions, reduced in fp32 whatever the type of the logits.
// logits: [..., vocabulary]; targets: int64 [...].
at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace hyperion::kernels
