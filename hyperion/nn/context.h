// Samples whose tokens are cut among processes, as modules use it (nn/processes.h): each of these is the identity where
// the pass has no context. All but attention and the balance of experts goes token by token, and needs no other
// process.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/kernels/dropout_math.h"
#include "hyperion/nn/pass.h"

namespace hyperion::nn {

// Of a tensor of all tokens along a dimension those of the cut.
at::Tensor tokens_of(const at::Tensor& all, const strategy::TokenCut& cut, int64_t dim);
// Which elements of the whole's [batch, all tokens, width] those are.
kernels::ElementMap elements_of(const strategy::TokenCut& cut, int64_t width);

// Causal attention of this process's queries over all processes' keys, [batch, heads, tokens, width], within documents
// where the pass has such. `window`: as blocks::AttentionMask's.
at::Tensor attend_in_context(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                             int64_t window, const Pass& pass);

// The sum of what all have, with which all go on alike; and of the loss that comes of it one process's share. Shares
// add up to the loss, and the gradients of shares to that of each process's own.
at::Tensor sum_over_context(const at::Tensor& own, const PassSettings& pass);
at::Tensor share_in_context(const at::Tensor& loss, const PassSettings& pass);

}  // namespace hyperion::nn
