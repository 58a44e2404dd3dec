// The steps of a transformer's block as single operations (blocks/block_ops.h), for models to build their blocks of
// where the pass asks for them and nothing stands between: no adapter, no 4-bit weight, no mask, no cache.
#pragma once
#include <initializer_list>
#include <utility>

#include "hyperion/kernels/activations_math.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/nn/attention.h"
#include "hyperion/nn/layers.h"

namespace hyperion::nn {

using kernels::Activation;
using ProjectionList = std::initializer_list<const Projection*>;

// Whether a block of these linears can be built so in this pass; `dropout`: of attention's weights, which cannot.
bool fuses(const Pass& pass, double dropout, ProjectionList linears);

// (hidden, the linears' outputs side by side): the first goes on as the residual.
std::pair<at::Tensor, at::Tensor> norm_linear(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                              ProjectionList linears);
// The map's output is dropped, if anything is, before the residual is added.
at::Tensor linear_residual(const at::Tensor& input, const Projection& map, const at::Tensor& residual,
                           const Dropped& dropped = {});
at::Tensor activated_linear_residual(const at::Tensor& input, Activation kind, const Projection& map,
                                     const at::Tensor& residual, const Dropped& dropped = {});

// Attention of queries, keys and values side by side, as norm_linear gives them, rotated by the pass's rotation if any.
// Its weights are not dropped.
at::Tensor packed_attention(const at::Tensor& packed, int64_t heads, int64_t key_heads, Attending how,
                            const Pass& pass);

// Lays the weights of linears over one input behind each other in memory, and so their biases.
void lay_together(ProjectionList linears);

using kernels::cross_entropy;
// The loss of hidden states under the output map `weight` [classes, width].
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets);

}  // namespace hyperion::nn
