// What the blocks of a transformer are made of, each one operation with its own backward, which keeps as little as it
// can: norms and activations are found again on the way back. Differentiable; the same maths as the plain layers.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "hyperion/blocks/fp8.h"
#include "hyperion/blocks/segments.h"
#include "hyperion/blocks/travel.h"
#include "hyperion/kernels/activations_math.h"
#include "hyperion/kernels/norm.h"

namespace hyperion::blocks {

class LaterGradients;

// x W + b of one or several linears over the same input, side by side. Weights [in, out] each, or [out, in]; biases as
// many, or none. Weights that lie one behind the other in memory (see `lay_together`) are taken as one.
struct Linears {
  std::vector<at::Tensor> weights, biases;
  bool in_out;
  Fp8Linear fp8 = {};               // set: their products are made in 8 bits
  LaterGradients* later = nullptr;  // set: the backward leaves the weights' gradients there
};

// Moves the tensors' values into one piece of memory, one behind the other; they keep their shapes and names.
void lay_together(const std::vector<at::Tensor>& tensors);

// (hidden itself, linears(norm(hidden))): the first goes on as the residual, so that both gradients meet in one pass.
// hidden: [..., width]. Keeps hidden and the norm's statistics.
std::pair<at::Tensor, at::Tensor> norm_linear(const at::Tensor& hidden, const kernels::NormWeights& norm,
                                              const Linears& linears);

// linears(input): where the norm is another's work. Keeps the input. Where the weights are shards: of the input of all
// processes, whose gradients are summed.
at::Tensor joined_linears(const at::Tensor& input, const Linears& linears, Travel* travel = nullptr);
// The sum over processes of linears(activation(input)), where the weights are shards.
at::Tensor summed_linear(const at::Tensor& input, std::optional<kernels::Activation> kind, const Linears& linears,
                         Travel& travel, bool last_use = false);

// residual + linears(activation(input)); without an activation the input itself. Keeps the input alone.
at::Tensor linear_residual(const at::Tensor& input, const Linears& linears, const at::Tensor& residual);
// last_use: the input's gradient may take the input's place; a second backward is an error then.
at::Tensor activated_linear_residual(const at::Tensor& input, kernels::Activation kind, const Linears& linears,
                                     const at::Tensor& residual, bool last_use = false);

struct Heads {
  int64_t queries, keys, width;  // keys: as many values; may be fewer than queries
};
// Attention of packed [batch, length, (queries + 2 keys) x width] -> [batch, length, queries x width].
// cosines, sines: fp32 [positions, width / 2], one row a place of the sequence or one a token of the batch; undefined:
// no rotation. Turns the packed tensor where it lies.
struct PackedSight {
  bool causal;
  int64_t window = 0;      // see AttentionMask
  Segments segments = {};  // documents whose bounds are not known are left to the plain operations
};
at::Tensor packed_attention(const at::Tensor& packed, const Heads& heads, const at::Tensor& cosines,
                            const at::Tensor& sines, const PackedSight& sight);

// What it does before it attends, on a GPU: queries and keys turn where they lie. Not differentiable.
void rotate_packed(const at::Tensor& packed, const Heads& heads, const at::Tensor& cosines, const at::Tensor& sines);

// The mean cross entropy of hidden W^T against targets, -100: not counted. hidden: [..., width]; W: [classes, width].
// Holds a part of the logits at a time; the gradients are found on the way forward and scaled on the way back.
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets);

// The same where each of several processes has W of some classes only. Of each token two numbers travel. What comes
// back to hidden is this process's share of a sum.
struct ClassShards {
  int64_t first, classes;                                        // that this process has first, and of all
  std::function<at::Tensor(const at::Tensor& own)> gather = {};  // [processes, ...], in their order
};
at::Tensor linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& targets,
                                const ClassShards& shards);

}  // namespace hyperion::blocks
