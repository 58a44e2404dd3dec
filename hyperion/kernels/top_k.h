// A router's choice: the softmax of a token's logits over the experts, and the likeliest few of them.
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>

namespace hyperion::kernels {

// (experts int64, weights fp32), both [tokens, choices], the likeliest first and of equals the lower number. logits:
// [tokens, experts], fp32, bf16 or fp16. `normalized`: a token's weights sum to 1. The weights are differentiable.
std::pair<at::Tensor, at::Tensor> top_k(const at::Tensor& logits, int64_t choices, bool normalized);
std::pair<at::Tensor, at::Tensor> top_k_reference(const at::Tensor& logits, int64_t choices, bool normalized);

}  // namespace hyperion::kernels
