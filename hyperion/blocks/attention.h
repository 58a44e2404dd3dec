// Attention over [batch, heads, length, head width]. Causal: the last query sees every key, so a cache may hold earlier
// keys. Keys and values may have fewer heads, each then shared by a group of query heads that lie side by side.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "hyperion/blocks/segments.h"

namespace hyperion::blocks {

// What keeps a query from keys, besides that it sees none ahead where attention is causal; all of it together. A query
// that sees no key gives zeros in the references, and in the library's forms whatever that gives: nothing may count it.
struct AttentionMask {
  at::Tensor keys = {};    // bool [batch, keys]: false: seen by no one; undefined: none such
  Segments segments = {};  // a query sees its own document's keys alone
  int64_t window = 0;      // of causal attention, above 0: the last so many keys up to its own place alone
};

// PyTorch's fused attention for the device. `queries` may be shorter than `keys`.
at::Tensor causal_attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                            const AttentionMask& mask = {});

// Scores, mask, softmax in fp32 and weighted sum, each a plain operation.
at::Tensor causal_attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                                      const AttentionMask& mask = {});

// The same with every query seeing every key.
at::Tensor attention(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                     const AttentionMask& mask = {});
at::Tensor attention_reference(const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values,
                               const AttentionMask& mask = {});

// Whether the library attends to heads of this width, on this device and in this type, by documents' bounds
// (Segments::bounds); and what it is told of a window. Not causal, or without one: nothing.
bool attends_by_bounds(const at::Tensor& of, int64_t width);
struct LibraryWindow {
  std::optional<int64_t> left = {}, right = {};
};
LibraryWindow library_window(bool causal, int64_t window);

// The references' two halves: fp32 [batch, heads, queries, keys], each row of sum 1 (0 where it sees no key); and
// the values summed by them.
at::Tensor attention_weights(const at::Tensor& queries, const at::Tensor& keys, bool causal,
                             const AttentionMask& mask = {});
at::Tensor weigh_values(const at::Tensor& weights, const at::Tensor& values);

}  // namespace hyperion::blocks
