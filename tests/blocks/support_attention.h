// Attention told of each query and key whether one sees the other: what every other form is held against.
#pragma once
#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <cmath>

namespace hyperion::testing {

// `seen`: bool [batch, queries, keys]; a query that sees nothing gives zeros.
inline at::Tensor plain_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                  const at::Tensor& seen) {
  const int64_t group = queries.size(1) / keys.size(1);
  const auto wide = [](const at::Tensor& tensor) { return tensor.to(at::kDouble); };
  const auto k = wide(keys).repeat_interleave(group, 1), v = wide(values).repeat_interleave(group, 1);
  const auto scores = wide(queries).matmul(k.transpose(-2, -1)).div(std::sqrt(static_cast<double>(queries.size(3))));
  const auto hidden = seen.logical_not().unsqueeze(1);
  return at::softmax(scores.masked_fill(hidden, -1e30), -1).masked_fill(hidden, 0).matmul(v).to(values.scalar_type());
}

}  // namespace hyperion::testing
