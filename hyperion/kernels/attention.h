// Causal attention over [batch, heads, length, head width]; the last query sees every key, so a cache may hold earlier
// keys.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// PyTorch's fused attention for the device. `queries` may be shorter than `keys`.
at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values);

// Scores, mask, softmax in fp32 and weighted sum, each a plain operation.
at::Tensor causal_attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values);

}  // namespace hyperion::kernels
