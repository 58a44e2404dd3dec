#include "hyperion/kernels/attention.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>

namespace hyperion::kernels {
namespace {

at::Tensor of_keys(const at::Tensor& key_mask) {
  return key_mask.dim() == 3 ? key_mask.unsqueeze(1) : key_mask.unsqueeze(1).unsqueeze(1);
}

// True where a query may look: key position <= query position, counted from the end and within the window, and the key
// is not masked.
at::Tensor visible(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& key_mask, int64_t window) {
  const int64_t rows = queries.size(2), columns = keys.size(2);
  auto earlier = at::ones({rows, columns}, queries.options().dtype(at::kBool)).tril(columns - rows);
  if (window > 0) earlier = earlier.triu(columns - rows - window + 1);
  return key_mask.defined() ? earlier.logical_and(of_keys(key_mask)) : earlier;
}

// Each head of keys or values, once for every query head of its group.
at::Tensor repeat_heads(const at::Tensor& heads, int64_t count) {
  return heads.size(1) == count ? heads : heads.repeat_interleave(count / heads.size(1), 1);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                            const at::Tensor& key_mask, int64_t window) {
  // Keys before the first query's window are seen by none.
  if (const int64_t seen = queries.size(2) + window - 1; window > 0 && seen < keys.size(2)) {
    const auto end = [seen](const at::Tensor& tensor, int64_t along) {
      return tensor.defined() ? tensor.narrow(along, tensor.size(along) - seen, seen) : tensor;
    };
    return causal_attention(queries, end(keys, 2), end(values, 2), end(key_mask, -1), window);
  }
  const bool grouped = queries.size(1) != keys.size(1), hides = window > 0 && keys.size(2) > window;
  const bool whole = queries.size(2) == keys.size(2), last = queries.size(2) == 1;
  std::optional<at::Tensor> mask;
  if (key_mask.defined() || hides || !(whole || last)) mask = visible(queries, keys, key_mask, window);
  return at::scaled_dot_product_attention(queries, keys, values, mask, 0.0, !mask && whole, std::nullopt, grouped);
}

at::Tensor causal_attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                      const at::Tensor& key_mask, int64_t window) {
  return weigh_values(attention_weights(queries, keys, /*causal=*/true, key_mask, window), values);
}

at::Tensor attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const at::Tensor& key_mask) {
  std::optional<at::Tensor> mask;
  if (key_mask.defined()) mask = of_keys(key_mask).expand({-1, 1, queries.size(2), -1});
  return at::scaled_dot_product_attention(queries, keys, values, mask, 0.0, /*is_causal=*/false, std::nullopt,
                                          queries.size(1) != keys.size(1));
}

at::Tensor attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                               const at::Tensor& key_mask) {
  return weigh_values(attention_weights(queries, keys, /*causal=*/false, key_mask), values);
}

at::Tensor attention_weights(const at::Tensor& queries, const at::Tensor& keys, bool causal, const at::Tensor& key_mask,
                             int64_t window) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(queries.size(3)));
  const auto all_keys = repeat_heads(keys, queries.size(1));
  const auto scores = at::matmul(queries, all_keys.transpose(-2, -1)).mul(scale).to(at::kFloat);
  if (!causal && !key_mask.defined()) return at::softmax(scores, -1);
  const auto hidden = (causal ? visible(queries, keys, key_mask, window) : of_keys(key_mask)).logical_not();
  // Finite, so that a row with nothing to see has no NaN in its gradient; its even weights are then zeroed.
  return at::softmax(scores.masked_fill(hidden, -1e30), -1).masked_fill(hidden, 0);
}

at::Tensor weigh_values(const at::Tensor& weights, const at::Tensor& values) {
  return at::matmul(weights.to(values.scalar_type()), repeat_heads(values, weights.size(1)));
}

}  // namespace hyperion::kernels
