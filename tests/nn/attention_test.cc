#include "hyperion/nn/attention.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "hyperion/nn/key_value_cache.h"
#include "tests/support/devices.h"

namespace hyperion::nn {
namespace {

using testing::relative_error;

std::vector<at::Tensor> attended(const std::vector<at::Tensor>& inputs, const at::Tensor& mask, bool reference) {
  Pass pass;
  pass.key_mask = mask;
  pass.reference = reference;
  for (const auto& input : inputs) input.mutable_grad().reset();
  const auto out = attend(inputs[0], inputs[1], inputs[2], 0, pass);
  out.sum().backward();
  std::vector<at::Tensor> results = {out.detach()};
  for (const auto& input : inputs) results.push_back(input.grad().clone());
  return results;
}

std::vector<at::Tensor> random_heads(int64_t queries, int64_t keys) {
  std::vector<at::Tensor> list;
  for (const int64_t heads : {queries, keys, keys}) list.push_back(at::randn({2, heads, 9, 8}).requires_grad_());
  return list;
}

TEST(Attend, agrees_with_its_reference_under_masks_and_shared_heads) {
  for (const int64_t keys : {6, 3, 1}) {
    const auto inputs = random_heads(6, keys);
    auto left = at::ones({2, 9}, at::kBool), right = left.clone();
    left.narrow(1, 0, 3).fill_(false);
    right.narrow(1, 5, 4).fill_(false);
    for (const auto& mask : {at::Tensor(), left, right}) {
      const auto fast = attended(inputs, mask, false), plain = attended(inputs, mask, true);
      for (size_t i = 0; i < fast.size(); ++i)
        EXPECT_LT(relative_error(fast[i], plain[i]), 2e-5) << i << " of " << keys;
    }
  }
}

// Dropped weights go by plain operations, those of a cache by its keys: each sees its own document alone.
TEST(Attend, keeps_documents_apart_with_dropout_and_with_a_cache) {
  const at::NoGradGuard no_grad;
  const auto starts = at::tensor({0, 0, 0, 3, 3, 3, 3, 7, 7, 0, 1, 1, 1, 1, 1, 6, 6, 6}, at::kInt).view({2, 9});
  const auto inputs = random_heads(4, 2);
  const auto all = [&](const at::Tensor& queries, const at::Tensor& keys, const at::Tensor& values) {
    Pass pass;
    pass.segments = blocks::Segments(starts);
    return attend(queries, keys, values, 0, pass);
  };
  const auto expected = all(inputs[0], inputs[1], inputs[2]);

  KeyValueCache cache;
  std::vector<at::Tensor> pieces;
  for (const auto& [first, count] : std::vector<std::pair<int64_t, int64_t>>{{0, 4}, {4, 1}, {5, 4}}) {
    Pass pass;
    pass.cache = &cache;
    pass.segments = blocks::Segments(starts.narrow(1, first, count));
    const auto piece = [&](size_t i) { return inputs[i].narrow(2, first, count); };
    pieces.push_back(attend(piece(0), piece(1), piece(2), 0, pass));
  }
  EXPECT_LT(relative_error(at::cat(pieces, 2), expected), 2e-5);

  auto changed = inputs[2].clone();  // the first row's second document
  changed[0].narrow(1, 3, 4).add_(1);
  const auto dropped = [&](const at::Tensor& values) {
    Pass pass;
    pass.training = true;
    pass.segments = blocks::Segments(starts);
    return attend(inputs[0], inputs[1], values, 0, pass, {.dropout = 0.3});
  };
  const auto difference = dropped(changed).sub(dropped(inputs[2])).abs().amax({1, 3});
  EXPECT_GT(difference[0].narrow(0, 3, 4).max().item<double>(), 0);
  EXPECT_EQ(difference[0].narrow(0, 0, 3).max().item<double>(), 0);
  EXPECT_EQ(difference[0].narrow(0, 7, 2).max().item<double>(), 0);
  EXPECT_EQ(difference[1].max().item<double>(), 0);
}

TEST(Attend, gives_zeros_where_nothing_can_be_seen) {
  const auto inputs = random_heads(2, 2);
  auto mask = at::ones({2, 9}, at::kBool);
  mask.narrow(1, 0, 4).fill_(false);
  for (const bool reference : {false, true}) {
    const auto results = attended(inputs, mask, reference);
    EXPECT_EQ(results[0].narrow(2, 0, 4).abs().max().item<double>(), 0);
    for (const auto& each : results) EXPECT_FALSE(each.isnan().any().item<bool>());
  }
}

TEST(Attend, lets_a_masked_key_change_nothing) {
  const auto inputs = random_heads(4, 2);
  auto mask = at::ones({2, 9}, at::kBool);
  mask.narrow(1, 2, 2).fill_(false);
  const auto before = attended(inputs, mask, false)[0];
  {
    const auto keys = inputs[1].detach(), values = inputs[2].detach();
    keys.narrow(2, 2, 2).fill_(50);
    values.narrow(2, 2, 2).fill_(50);
  }
  EXPECT_LT(relative_error(attended(inputs, mask, false)[0], before), 1e-6);
}

at::Tensor turned(const at::Tensor& input, int64_t first, const RopeConfig& config) {
  Pass pass;
  Rotation(input.size(3), config).apply_to(pass, first, at::zeros({1, input.size(2)}));
  return rotate(input, pass);
}

TEST(Rotate, keeps_lengths_and_makes_products_depend_on_distance_alone) {
  const auto q = at::randn({1, 1, 1, 16}), k = at::randn({1, 1, 1, 16});
  const auto product = [&](int64_t a, int64_t b) {
    return turned(q, a, {}).mul(turned(k, b, {})).sum().item<double>();
  };
  EXPECT_NEAR(turned(q, 37, {}).norm().item<double>(), q.norm().item<double>(), 1e-5);
  EXPECT_NEAR(product(3, 8), product(40, 45), 1e-4);
  EXPECT_GT(std::abs(product(3, 8) - product(3, 9)), 1e-3);
}

TEST(Rotate, by_tables_that_follow_what_changes) {
  RopeConfig dynamic;
  dynamic.scaling = RopeScaling::dynamic, dynamic.factor = 2, dynamic.original_context = 8;
  for (const auto& config : {RopeConfig{}, dynamic}) {
    Rotation kept(8, config);
    const auto expect_as_new = [&](Pass given, int64_t first, const at::Tensor& hidden) {
      Pass pass = given, fresh = given;
      kept.apply_to(pass, first, hidden);
      Rotation(8, config).apply_to(fresh, first, hidden);
      EXPECT_TRUE(pass.cosines.equal(fresh.cosines) && pass.sines.equal(fresh.sines));
      EXPECT_EQ(pass.half_sines.defined(), given.fused_blocks);
      EXPECT_TRUE(!given.fused_blocks || pass.half_sines.equal(fresh.half_sines));
    };
    Pass fused, placed;
    fused.fused_blocks = true;
    placed.positions = at::randint(50, {2, 5}, at::kLong);
    const auto five = at::zeros({2, 5}), six = at::zeros({2, 6}), narrow = at::zeros({2, 5}, at::kBFloat16);
    for (int turn = 0; turn < 2; ++turn) {
      expect_as_new({}, 0, five);
      expect_as_new({}, 0, five);
      expect_as_new({}, 3, five);
      expect_as_new({}, 3, six);
      expect_as_new(fused, 3, six);
      expect_as_new({}, 3, narrow);
      expect_as_new(placed, 3, narrow);
      expect_as_new({}, 3, narrow);
    }
  }
}

TEST(Rotate, by_one_token_turns_the_first_pair_by_one_radian) {
  auto input = at::zeros({1, 1, 2, 4});
  input[0][0][1][0] = 1;
  const auto out = turned(input, 0, {})[0][0][1];
  EXPECT_NEAR(out[0].item<double>(), std::cos(1.0), 1e-6);
  EXPECT_NEAR(out[2].item<double>(), std::sin(1.0), 1e-6);
}

TEST(Rotate, scales_frequencies_as_asked) {
  const auto plain = rope_frequencies(16, {});
  RopeConfig linear;
  linear.scaling = RopeScaling::linear, linear.factor = 4;
  EXPECT_LT(relative_error(rope_frequencies(16, linear).mul(4), plain), 1e-6);
  RopeConfig llama3;
  llama3.scaling = RopeScaling::llama3, llama3.factor = 8, llama3.original_context = 64;
  const auto blended = rope_frequencies(16, llama3);
  EXPECT_EQ(blended[0].item<float>(), plain[0].item<float>()) << "a wave shorter than 16 tokens stays";
  EXPECT_NEAR(blended[7].item<double>(), plain[7].item<double>() / 8, 1e-9) << "a wave longer than 64 tokens is slowed";
  const double middle = blended[2].item<double>() / plain[2].item<double>();  // 62.8 tokens: between the two
  EXPECT_GT(middle, 1.0 / 8);
  EXPECT_LT(middle, 1);
}

TEST(Rotate, blends_frequencies_by_turns_in_yarn_and_scales_its_tables) {
  const auto plain = rope_frequencies(16, {});
  RopeConfig yarn;
  yarn.scaling = RopeScaling::yarn, yarn.factor = 8, yarn.original_context = 64, yarn.table_scale = 1.2;
  yarn.fast_turns = 4;
  const auto ratio = rope_frequencies(16, yarn).div(plain);
  EXPECT_NEAR(ratio[0].item<double>(), 1, 1e-6) << "10 turns over 64 tokens";
  EXPECT_NEAR(ratio[7].item<double>(), 1.0 / 8, 1e-6);
  EXPECT_GT(ratio[1].item<double>(), ratio[2].item<double>());
  const auto input = at::randn({1, 1, 3, 16});
  EXPECT_NEAR(turned(input, 5, yarn).norm().item<double>(), 1.2 * input.norm().item<double>(), 1e-4);
}

TEST(Rotate, grows_theta_in_dynamic_scaling_with_the_farthest_place_alone) {
  RopeConfig dynamic;
  dynamic.scaling = RopeScaling::dynamic, dynamic.factor = 3, dynamic.original_context = 8;
  const auto input = at::randn({2, 1, 6, 16});
  EXPECT_TRUE(turned(input, 2, dynamic).equal(turned(input, 2, {}))) << "8 tokens are within the context";
  RopeConfig grown;
  grown.theta = 10000 * std::pow(3.0 * 20 / 8 - 2, 16.0 / 14);
  EXPECT_LT(relative_error(turned(input, 14, dynamic), turned(input, 14, grown)), 1e-5);
  Pass placed;
  placed.positions = at::arange(6).expand({2, 6}).clone();
  Rotation rotation(16, dynamic);
  rotation.apply_to(placed, 0, at::zeros({2, 6}));
  EXPECT_LT(relative_error(rotate(input, placed), turned(input, 0, {})), 1e-6);
  placed.positions[1].add_(14);
  rotation.apply_to(placed, 0, at::zeros({2, 6}));
  const auto both = rotate(input, placed);
  EXPECT_LT(relative_error(both[0], turned(input, 0, grown)[0]), 1e-5) << "the longest row decides for all";
  EXPECT_LT(relative_error(both[1], turned(input, 14, grown)[1]), 1e-5);
}

}  // namespace
}  // namespace hyperion::nn
