#include "hyperion/blocks/attention.h"

#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <vector>

namespace hyperion::blocks {
namespace {

// True where a query may look: its document's keys up to its own place, counted from the end and within the window, or
// all of its document's; and the key is not masked. Undefined: everywhere.
at::Tensor visible(const at::Tensor& queries, const at::Tensor& keys, bool causal, const AttentionMask& mask) {
  const int64_t rows = queries.size(2), columns = keys.size(2);
  at::Tensor seen;
  if (mask.segments.defined()) {
    seen = mask.segments.visible({columns, causal, causal ? mask.window : 0});
  } else if (causal) {
    seen = at::ones({rows, columns}, queries.options().dtype(at::kBool)).tril(columns - rows);
    if (mask.window > 0) seen = seen.triu(columns - rows - mask.window + 1);
  }
  if (!mask.keys.defined()) return seen;
  const auto of_keys = mask.keys.unsqueeze(1).unsqueeze(1);
  return seen.defined() ? seen.logical_and(of_keys) : of_keys;
}

// Each head of keys or values, once for every query head of its group.
at::Tensor repeat_heads(const at::Tensor& heads, int64_t count) {
  return heads.size(1) == count ? heads : heads.repeat_interleave(count / heads.size(1), 1);
}

// Whether a GPU's kernels over variable lengths can be told the documents' bounds, and so need no mask.
bool by_bounds(const at::Tensor& queries, const at::Tensor& keys, const AttentionMask& mask) {
  return !mask.keys.defined() && queries.size(2) == keys.size(2) && queries.size(2) > 1 &&
         attends_by_bounds(queries, queries.size(3)) && mask.segments.bounds().defined();
}

at::Tensor attended_by_bounds(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, bool causal,
                              const AttentionMask& mask) {
  const auto tokens = [](const at::Tensor& heads) { return heads.transpose(1, 2).flatten(0, 1); };
  const auto bounds = mask.segments.bounds();
  const auto sight = library_window(causal, mask.window);
  const auto all =
      at::_flash_attention_forward(tokens(queries), tokens(keys), tokens(values), bounds, bounds, keys.size(2),
                                   keys.size(2), 0, causal, false, std::nullopt, sight.left, sight.right);
  return std::get<0>(all).view({queries.size(0), queries.size(2), queries.size(1), queries.size(3)}).transpose(1, 2);
}

// `masked`: the library is told what is seen; else `causal` says all of it, but for one query, which sees every key.
at::Tensor attended(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values, bool masked,
                    bool causal, const AttentionMask& mask) {
  if (mask.segments.defined() && by_bounds(queries, keys, mask))
    return attended_by_bounds(queries, keys, values, causal, mask);
  std::optional<at::Tensor> seen;
  if (masked && mask.segments.defined() && !mask.keys.defined()) {
    // In the scores' type, or the library would make and keep such a one for each layer.
    seen = mask.segments.added_to_scores({keys.size(2), causal, causal ? mask.window : 0}, queries.scalar_type());
  } else if (masked) {
    const auto all = visible(queries, keys, causal, mask);
    seen = causal ? all : all.expand({-1, 1, queries.size(2), -1});
  }
  const bool whole = queries.size(2) == keys.size(2), grouped = queries.size(1) != keys.size(1);
  return at::scaled_dot_product_attention(queries, keys, values, seen, 0.0, causal && !masked && whole, std::nullopt,
                                          grouped);
}

// How many tokens each document has, row after row, where a CPU attends to each by itself and needs no dense mask:
// where that spares more multiplications than its calls cost. Empty: it does not.
std::vector<int64_t> documents_apart(const at::Tensor& queries, const at::Tensor& keys, const AttentionMask& mask) {
  constexpr int64_t kCall = 1 << 19;  // multiplications
  if (!mask.segments.defined() || !queries.is_cpu() || mask.keys.defined() || queries.size(2) != keys.size(2))
    return {};
  const int64_t length = queries.size(2);
  const auto starts = mask.segments.starts().contiguous();
  const auto* start = starts.const_data_ptr<int32_t>();
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < starts.numel(); ++i) {
    if (i % length == 0 || start[i] != start[i - 1]) lengths.push_back(0);
    ++lengths.back();
  }
  int64_t spared = queries.size(0) * length * length;
  for (const int64_t own : lengths) spared -= own * own / 2;  // what lies ahead is not computed
  if (spared * queries.size(1) * queries.size(3) < std::ssize(lengths) * kCall) return {};
  return lengths;
}

// `one` attends within a document: the tokens of all rows lie behind each other, and are cut where documents begin.
template <class One>
at::Tensor by_document(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                       const std::vector<int64_t>& lengths, const One& one) {
  const auto cut = [&](const at::Tensor& heads) {
    return heads.transpose(1, 2).flatten(0, 1).split_with_sizes(lengths);
  };
  const auto heads_of = [](const at::Tensor& tokens) { return tokens.transpose(0, 1).unsqueeze(0); };
  const auto q = cut(queries), k = cut(keys), v = cut(values);
  std::vector<at::Tensor> mixed;
  for (size_t i = 0; i < lengths.size(); ++i)
    mixed.push_back(one(heads_of(q[i]), heads_of(k[i]), heads_of(v[i])).squeeze(0).transpose(0, 1));
  return at::cat(mixed).view({queries.size(0), queries.size(2), queries.size(1), values.size(3)}).transpose(1, 2);
}

}  // namespace

bool attends_by_bounds(const at::Tensor& of, int64_t width) {
  const bool narrow = of.scalar_type() == at::kBFloat16 || of.scalar_type() == at::kHalf;
  return of.is_cuda() && narrow && width % 8 == 0 && width <= 128;
}

LibraryWindow library_window(bool causal, int64_t window) {
  if (!causal || window == 0) return {};
  return {window - 1, 0};
}

at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                            const AttentionMask& mask) {
  const int64_t window = mask.window;
  if (const auto lengths = documents_apart(queries, keys, mask); !lengths.empty())
    return by_document(queries, keys, values, lengths, [&](const auto& q, const auto& k, const auto& v) {
      return causal_attention(q, k, v, {.window = window});
    });
  // Keys before the first query's window are seen by none.
  if (const int64_t seen = queries.size(2) + window - 1;
      window > 0 && seen < keys.size(2) && !mask.segments.defined()) {
    const auto end = [seen](const at::Tensor& tensor, int64_t along) {
      return tensor.defined() ? tensor.narrow(along, tensor.size(along) - seen, seen) : tensor;
    };
    return causal_attention(queries, end(keys, 2), end(values, 2), {.keys = end(mask.keys, 1), .window = window});
  }
  const bool hides = window > 0 && keys.size(2) > window;
  const bool whole = queries.size(2) == keys.size(2), last = queries.size(2) == 1;
  const bool masked = mask.keys.defined() || mask.segments.defined() || hides || !(whole || last);
  return attended(queries, keys, values, masked, /*causal=*/true, mask);
}

at::Tensor causal_attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                      const AttentionMask& mask) {
  return weigh_values(attention_weights(queries, keys, /*causal=*/true, mask), values);
}

at::Tensor attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask) {
  if (const auto lengths = documents_apart(queries, keys, mask); !lengths.empty())
    return by_document(queries, keys, values, lengths,
                       [&](const auto& q, const auto& k, const auto& v) { return attention(q, k, v); });
  return attended(queries, keys, values, mask.keys.defined() || mask.segments.defined(), /*causal=*/false, mask);
}

at::Tensor attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                               const AttentionMask& mask) {
  return weigh_values(attention_weights(queries, keys, /*causal=*/false, mask), values);
}

at::Tensor attention_weights(const at::Tensor& queries, const at::Tensor& keys, bool causal,
                             const AttentionMask& mask) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(queries.size(3)));
  const auto all_keys = repeat_heads(keys, queries.size(1));
  const auto scores = at::matmul(queries, all_keys.transpose(-2, -1)).mul(scale).to(at::kFloat);
  const auto seen = visible(queries, keys, causal, mask);
  if (!seen.defined()) return at::softmax(scores, -1);
  const auto hidden = seen.logical_not();
  // Finite, so that a row with nothing to see has no NaN in its gradient; its even weights are then zeroed.
  return at::softmax(scores.masked_fill(hidden, -1e30), -1).masked_fill(hidden, 0);
}

at::Tensor weigh_values(const at::Tensor& weights, const at::Tensor& values) {
  return at::matmul(weights.to(values.scalar_type()), repeat_heads(values, weights.size(1)));
}

}  // namespace hyperion::blocks
