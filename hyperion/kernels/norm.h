// Layer norm and RMS norm (Zhang and Sennrich, 2019; no bias) over the last dimension, as the pieces other operations
// are made of: the values, the statistics to find them again, and the gradients. On the CPU in PyTorch's operations, on
// a GPU in one pass each.
#pragma once
#include <ATen/core/Tensor.h>

namespace hyperion::kernels {

struct NormWeights {
  at::Tensor weight, bias;  // without a bias: RMS norm
  double epsilon;
};

struct NormStatistics {
  at::Tensor mean, inverse;  // fp32, one a row; the mean is undefined for RMS norm
};

struct Normalized {
  at::Tensor output;
  NormStatistics statistics;
};
Normalized normalize(const at::Tensor& input, const NormWeights& weights);
// The output goes into [rows, width], whose rows may be parts of wider ones.
Normalized normalize_into(const at::Tensor& out, const at::Tensor& input, const NormWeights& weights);
NormStatistics norm_statistics(const at::Tensor& input, const NormWeights& weights);
// The output again.
at::Tensor normalize_again(const at::Tensor& input, const NormWeights& weights, const NormStatistics& statistics);

struct NormGradients {
  at::Tensor input, weight, bias;
  at::Tensor output = {},
             sums = {};  // where asked for: the norm's output again; the input's gradient summed over its rows
};
struct NormExtras {
  bool output = false, sums = false;
  bool weights = true;  // their gradients; a frozen norm needs none
};
// `residual`, where defined, is added to the input's gradient. What is asked for besides comes in the same pass.
NormGradients norm_gradients(const at::Tensor& input, const NormWeights& weights, const NormStatistics& statistics,
                             const at::Tensor& upstream, const at::Tensor& residual, const NormExtras& extras = {});

// Differentiable; keeps the input and the statistics.
at::Tensor norm(const at::Tensor& input, const NormWeights& weights);
// The same in plain operations.
at::Tensor norm_reference(const at::Tensor& input, const NormWeights& weights);

}  // namespace hyperion::kernels
