// The parts of a transformer block that have no parameters: attention over the cache, and named dropout.
#pragma once
#include <string_view>

#include "hyperion/nn/pass.h"

namespace hyperion::nn {

// Causal attention of [batch, heads, length, head width]; extends the pass's cache for this layer where there is one.
at::Tensor attend(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, size_t layer,
                  Pass& pass);

// Dropout of the stream "dropout/<layer>.<name>"; the identity unless training.
at::Tensor dropout(const at::Tensor& input, double p, std::string_view name, size_t layer, const Pass& pass);

}  // namespace hyperion::nn
