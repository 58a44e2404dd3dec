// Attention put together from parts of the keys gives what attention over all of them does, in value and gradient.
#include "hyperion/blocks/attention_parts.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "tests/blocks/support_attention.h"
#include "tests/support/devices.h"

namespace hyperion::blocks {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) { return a.sub(b).abs().max().item<double>(); }

using Sees = std::function<at::Tensor(const at::Tensor& query, const at::Tensor& key)>;
const Sees kCausal = [](const auto& query, const auto& key) { return key.le(query); };

// Queries, keys and values of odd sizes; the keys in parts of these lengths. Without a mask the last part is as long as
// the queries, and causal.
void expect_as_whole(int64_t heads, int64_t key_heads, int64_t queries, const std::vector<int64_t>& lengths,
                     const Sees& sees, bool masked = true) {
  constexpr int64_t kBatch = 2, kWidth = 7;
  int64_t keys = 0;
  for (const int64_t length : lengths) keys += length;
  const AttentionInputs whole{at::randn({kBatch, heads, queries, kWidth}).requires_grad_(),
                              at::randn({kBatch, key_heads, keys, kWidth}).requires_grad_(),
                              at::randn({kBatch, key_heads, keys, kWidth}).requires_grad_()};
  const auto above = at::randn({kBatch, heads, queries, kWidth});
  const auto place = at::arange(keys - queries, keys).unsqueeze(1);  // the queries are the last
  const auto seen = sees(place, at::arange(keys).unsqueeze(0)).unsqueeze(0);
  const auto expected = testing::plain_attention(whole.queries, whole.keys, whole.values, seen);
  const auto gradients = torch::autograd::grad({expected}, {whole.queries, whole.keys, whole.values}, {above});

  const auto part_of = [&](int64_t first, int64_t count) {
    return AttentionInputs{whole.queries.detach(), whole.keys.detach().narrow(2, first, count),
                           whole.values.detach().narrow(2, first, count)};
  };
  const auto sight_of = [&](int64_t first, int64_t count) {
    if (!masked) return PartSight{first + count == keys, {}};
    return PartSight{false, seen.narrow(2, first, count).unsqueeze(1)};
  };
  AttentionPart all;
  int64_t first = keys;  // from the end on, where a causal query has something to see
  for (size_t i = lengths.size(); i-- > 0;) {
    first -= lengths[i];
    auto part = attend_part(part_of(first, lengths[i]), sight_of(first, lengths[i]));
    all.output.defined() ? merge_part(all, part, 0) : void(all = std::move(part));
  }
  EXPECT_LT(distance(all.output, expected.detach()), 1e-5);
  const auto of_queries = at::zeros_like(above);
  first = 0;
  for (const int64_t length : lengths) {
    const auto found = part_gradients({all.output, all.sums, above}, part_of(first, length), sight_of(first, length));
    of_queries.add_(found.queries);
    EXPECT_LT(distance(found.keys, gradients[1].narrow(2, first, length)), 1e-5) << first;
    EXPECT_LT(distance(found.values, gradients[2].narrow(2, first, length)), 1e-5) << first;
    first += length;
  }
  EXPECT_LT(distance(of_queries, gradients[0]), 1e-5);
}

TEST(AttentionParts, of_any_lengths_make_the_whole) {
  expect_as_whole(4, 4, 5, {3, 1, 7}, kCausal);
  expect_as_whole(6, 2, 9, {9}, kCausal);
  expect_as_whole(3, 1, 11, {5, 4, 2},
                  [](const auto& q, const auto& k) { return k.le(q).logical_and(k.gt(q.sub(3))); });
  expect_as_whole(2, 2, 1, {13, 17}, [](const auto& q, const auto& k) { return k.ge(q.mul(0)); });
}

TEST(AttentionParts, make_the_whole_without_masks_too) {
  expect_as_whole(4, 4, 5, {3, 1, 5}, kCausal, /*masked=*/false);
  expect_as_whole(6, 2, 9, {9}, kCausal, /*masked=*/false);
  expect_as_whole(3, 1, 70, {130, 1, 70}, kCausal, /*masked=*/false);
  expect_as_whole(2, 1, 600, {600, 600}, kCausal, /*masked=*/false);
}

TEST(AttentionParts, see_ahead_where_they_are_not_causal_alone) {
  const AttentionInputs inputs{at::randn({1, 2, 6, 4}), at::randn({1, 2, 6, 4}), at::randn({1, 2, 6, 4})};
  const auto ahead = at::ones({1, 6, 6}, at::kBool);
  const auto all = testing::plain_attention(inputs.queries, inputs.keys, inputs.values, ahead);
  const auto causal = testing::plain_attention(inputs.queries, inputs.keys, inputs.values, ahead.tril());
  EXPECT_LT(distance(attend_part(inputs, {}).output, all), 1e-5);
  EXPECT_LT(distance(attend_part(inputs, {.causal = true}).output, causal), 1e-5);
}

// Rows that lie as the library's kernels leave them, sums that are nothing on one side or on both, types as a GPU has.
TEST(AttentionParts, are_put_together_in_one_pass_as_by_plain_operations) {
  constexpr float kNothing = -std::numeric_limits<float>::infinity();
  for (const auto device : testing::devices())
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
      for (const int64_t width : {1, 7, 8, 64, 100, 128, 256})
        for (const bool apart : {false, true}) {
          const auto options = at::TensorOptions(device).dtype(at::kFloat);
          const auto laid = [&](int64_t queries) {  // heads beside each other, or behind each other
            return apart ? at::randn({2, queries, 3, width}, options).transpose(1, 2)
                         : at::randn({2, 3, queries, width}, options);
          };
          AttentionPart all{laid(9), at::randn({2, 3, 9}, options).mul(5)};
          const AttentionPart more{laid(5).to(type), at::randn({2, 3, 5}, options).mul(5)};
          all.sums[0][1].narrow(0, 3, 4).fill_(kNothing), more.sums[0][1].narrow(0, 0, 3).fill_(kNothing);
          all.sums[1][2][8].fill_(200), more.sums[1][2][4].fill_(-200);
          AttentionPart plain{all.output.clone(), all.sums.clone()};
          const auto untouched = all.output.narrow(2, 0, 3).clone();
          merge_part(all, more, 3);
          merge_part_reference(plain, more, 3);
          EXPECT_LT(distance(all.output.narrow(2, 3, 5), plain.output.narrow(2, 3, 5)), 1e-5) << type << " " << width;
          EXPECT_TRUE(all.sums.allclose(plain.sums, 1e-6, 1e-5)) << type << " " << width;
          EXPECT_TRUE(all.output.narrow(2, 0, 3).equal(untouched));
        }
}

}  // namespace
}  // namespace hyperion::blocks
