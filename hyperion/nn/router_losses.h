// What keeps a mixture of experts trainable: losses of its routers' logits, one [tokens, experts] a layer. All layers
// count together; a mask (bool, as many elements as tokens; undefined: none) leaves tokens out. fp32 scalars.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hyperion::nn {

// experts * sum over experts of (share of choices it got) * (mean probability it had), as Switch Transformers (Fedus et
// al., 2021) with the shares of all choices of a token summed: `choices` where routing is even.
at::Tensor balance_loss(const std::vector<at::Tensor>& logits, int64_t choices, const at::Tensor& mask);

// Mean of log(sum(exp(logits)))^2, which keeps logits small (Zoph et al., 2022).
at::Tensor router_z_loss(const std::vector<at::Tensor>& logits, const at::Tensor& mask);

}  // namespace hyperion::nn
