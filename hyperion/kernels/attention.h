// Causal attention over [batch, heads, length, head width]; the last query sees every key, so a cache may hold earlier
// keys. Keys and values may have fewer heads, each then shared by a group of query heads that lie side by side.
// `key_mask`, where defined: bool [batch, keys], true where a key may be seen; a query that sees no key gives zeros.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// PyTorch's fused attention for the device. `queries` may be shorter than `keys`.
at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                            const at::Tensor& key_mask = {});

// Scores, mask, softmax in fp32 and weighted sum, each a plain operation.
at::Tensor causal_attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                      const at::Tensor& key_mask = {});

}  // namespace hyperion::kernels
