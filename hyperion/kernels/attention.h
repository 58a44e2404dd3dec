// Attention over [batch, heads, length, head width]. Causal: the last query sees every key, so a cache may hold earlier
// keys. Keys and values may have fewer heads, each then shared by a group of query heads that lie side by side.
// `key_mask`, where defined: bool [batch, keys], or [batch, queries, keys], true where a key may be seen; a query that
// sees no key gives zeros. `window`, above 0: a query sees the last `window` of the keys up to its own place alone.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

// PyTorch's fused attention for the device. `queries` may be shorter than `keys`.
at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                            const at::Tensor& key_mask = {}, int64_t window = 0);

// Scores, mask, softmax in fp32 and weighted sum, each a plain operation.
at::Tensor causal_attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                      const at::Tensor& key_mask = {}, int64_t window = 0);

// The same with every query seeing every key.
at::Tensor attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const at::Tensor& key_mask = {});
at::Tensor attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                               const at::Tensor& key_mask = {});

// The references' two halves: fp32 [batch, heads, queries, keys], each row of sum 1 (0 where it sees no key); and
// the values summed by them. The window is of causal ones.
at::Tensor attention_weights(const at::Tensor& queries, const at::Tensor& keys, bool causal,
                             const at::Tensor& key_mask = {}, int64_t window = 0);
at::Tensor weigh_values(const at::Tensor& weights, const at::Tensor& values);

}  // namespace hyperion::kernels
