// What keeps a mixture of experts trainable: losses of its routers' logits, one [tokens, experts] a layer. All layers
// count together, by sums that one stage of a pipeline hands to the next; a mask (bool, as many elements as tokens;
// undefined: none) leaves tokens out.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hyperion::nn {

// fp32 [2 experts + 2]: how often each expert was chosen, how likely each was, the squares of the z loss (where they
// are wanted), and layers. `before`: of the layers before these; undefined: there are none.
int64_t router_sums_size(int64_t experts);
at::Tensor router_sums(const at::Tensor& before, const std::vector<at::Tensor>& logits, int64_t choices,
                       const at::Tensor& mask, bool squares);
// fp32, of what a pass counts.
at::Tensor counted_tokens(const at::Tensor& logits, const at::Tensor& mask);

// Both are fp32 scalars, of those sums over so many tokens a layer.
// experts * sum over experts of (share of choices it got) * (mean probability it had), as Switch Transformers (Fedus et
// al., 2021) with the shares of all choices of a token summed: `choices` where routing is even.
at::Tensor balance_loss(const at::Tensor& sums, const at::Tensor& tokens);

// Mean of log(sum(exp(logits)))^2, which keeps logits small (Zoph et al., 2022).
at::Tensor router_z_loss(const at::Tensor& sums, const at::Tensor& tokens);

}  // namespace hyperion::nn
