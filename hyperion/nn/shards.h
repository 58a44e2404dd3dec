// Layers cut among processes, as modules use it (nn/processes.h): each of these is the identity where the pass has no
// shards. A half of a block enters and leaves its cut weights in nn/pre_norm.cc, a mixture of experts in nn/experts.cc,
// tables and outputs over tokens here.
#pragma once
#include <ATen/core/Tensor.h>

#include "hyperion/kernels/dropout_math.h"
#include "hyperion/nn/pass.h"

namespace hyperion::nn {

at::Tensor into_shards(const at::Tensor& hidden, const PassSettings& pass);
at::Tensor out_of_shards(const at::Tensor& part, const PassSettings& pass);

// Of what all processes compute alike from here on: its gradient, which is the same on each, counts one share.
at::Tensor one_share(const at::Tensor& tensor, const PassSettings& pass);

// By sequence: this process's tokens of [batch, length, ...], and of its own tokens how many all have together.
at::Tensor own_tokens(const at::Tensor& all, const PassSettings& pass);
int64_t length_of_all(const at::Tensor& hidden, const PassSettings& pass);
// Which elements of the whole's [batch, length, width] this process's hidden states are, of a part of the samples'
// tokens (nn/context.h) too.
kernels::ElementMap own_elements(const at::Tensor& hidden, const Pass& pass);

// Rows of a table by ids, where this process has `shard` of its `rows`; the others' are summed to them.
at::Tensor embed_in_shards(const at::Tensor& shard, int64_t rows, const at::Tensor& ids, const PassSettings& pass);

// Logits [..., classes], where this process has its own of so many classes. Their gradients go back to each.
at::Tensor logits_of_shards(const at::Tensor& own, int64_t classes, const PassSettings& pass);

// As kernels::cross_entropy of all logits, which are never together: of each token the logarithm of its sum of
// exponentials and the target's logit travel. Where the pass counts right answers, counts them.
at::Tensor cross_entropy_of_shards(const at::Tensor& own, int64_t classes, const at::Tensor& targets, Pass& pass);
// The same of hidden W^T, W of this process's classes, that holds a part of its logits at a time.
at::Tensor linear_cross_entropy_of_shards(const at::Tensor& hidden, const at::Tensor& weight, int64_t classes,
                                          const at::Tensor& targets, const PassSettings& pass);

}  // namespace hyperion::nn
