// Attention over some of the keys at a time: of each part its output and the logarithm of its sum of exponentials, from
// which the parts' outputs are put together exactly (online softmax: Milakov and Gimelshein, 2018). By the
// library's kernels where there is no mask and it has some for the type, else by plain tensor operations that hold all
// scores; not differentiable by themselves: whoever puts parts together finds the gradients, part by part.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/blocks/library_attention.h"

namespace hyperion::blocks {

// Which keys a query sees: of as many keys as queries those up to its own place, or what a mask says, bool [batch or 1,
// 1, queries, keys]; without either all of them.
struct PartSight {
  bool causal = false;
  at::Tensor seen = {};
};

struct AttentionPart {
  at::Tensor output;  // as the queries, in fp32 or their type
  at::Tensor sums;    // fp32 [batch, heads, queries]: log of the sum of exponentials; -inf: the query sees no key
};
AttentionPart attend_part(const AttentionInputs& inputs, const PartSight& sight);

// Of queries from `first` on, more keys: `all`, whose output is fp32, then holds what attention over the keys of both
// gives. In one pass, and by plain operations.
void merge_part(AttentionPart& all, const AttentionPart& more, int64_t first);
void merge_part_reference(AttentionPart& all, const AttentionPart& more, int64_t first);

// Of queries, over all keys: what came out, in their type, with its sums, and its gradient, in their type too.
struct AttentionWhole {
  at::Tensor output, sums, above;
};
// Of this part's queries, keys and values, in fp32 or their type.
AttentionInputs part_gradients(const AttentionWhole& whole, const AttentionInputs& inputs, const PartSight& sight);

}  // namespace hyperion::blocks
