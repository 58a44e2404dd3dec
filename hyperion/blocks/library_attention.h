// The fused attention of the device's library, its forward and its backward each called by itself, so that what lies
// between them need not be autograd's: heads of a packed tensor, or some of the keys at a time.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/blocks/attention_backend.h"

namespace hyperion::blocks {

// Queries [batch, heads, queries, width]; keys and values [batch, heads, keys, width], of as many heads or fewer, each
// then shared by query heads that lie side by side.
struct AttentionInputs {
  at::Tensor queries, keys, values;
};

struct LibraryAttention {
  at::Tensor output;                  // as the queries
  at::Tensor sums;                    // fp32 [batch, heads, queries]: log of the sum of exponentials
  at::Tensor seed = {}, offset = {};  // which its backward asks for; undefined: it is given some
};

bool has_library_attention(const at::Tensor& of, int64_t width);  // on this device, in this type

// `backend`: of a GPU. Causal is of as many keys as queries.
LibraryAttention library_attention(const AttentionInputs& inputs, bool causal, AttentionBackend backend);
AttentionInputs library_gradients(const AttentionInputs& inputs, const at::Tensor& above,
                                  const LibraryAttention& attended, bool causal, AttentionBackend backend);
AttentionBackend library_backend(const AttentionInputs& inputs, bool causal);

}  // namespace hyperion::blocks
