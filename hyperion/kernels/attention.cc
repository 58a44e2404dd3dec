#include "hyperion/kernels/attention.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

namespace hyperion::kernels {
namespace {

// True where a query may look: key position <= query position, counted from the end.
at::Tensor visible(const at::Tensor& queries, const at::Tensor& keys) {
  const int64_t rows = queries.size(2), columns = keys.size(2);
  return at::ones({rows, columns}, queries.options().dtype(at::kBool)).tril(columns - rows);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
  if (queries.size(2) == keys.size(2)) return at::scaled_dot_product_attention(queries, keys, values, {}, 0.0, true);
  if (queries.size(2) == 1) return at::scaled_dot_product_attention(queries, keys, values);
  return at::scaled_dot_product_attention(queries, keys, values, visible(queries, keys));
}

at::Tensor causal_attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(queries.size(3)));
  at::Tensor scores = at::matmul(queries, keys.transpose(-2, -1)).mul(scale);
  scores = scores.masked_fill(visible(queries, keys).logical_not(), -std::numeric_limits<double>::infinity());
  return at::matmul(at::softmax(scores, -1, at::kFloat).to(values.scalar_type()), values);
}

}  // namespace hyperion::kernels
