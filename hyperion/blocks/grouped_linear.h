// Products of many linears, each over rows of its own, in one call.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace hyperion::blocks {

class LaterGradients;

// Rows [rows, in], those of map 0 first, `ends` int32 [linears] the row after each one's last -> [rows, out]. weights:
// as many [out, in] tensors a map as go side by side, map by map; taken where they are if they lie behind each other in
// memory (lay_together, block_ops.h), else copied. Differentiable; a map without rows gets a gradient of zeros.
// `later`: where the backward leaves the weights' gradients.
at::Tensor grouped_linear(const at::Tensor& rows, const at::Tensor& ends, const std::vector<at::Tensor>& weights,
                          LaterGradients* later = nullptr);

}  // namespace hyperion::blocks
