#include "hyperion/nn/router_losses.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <utility>

#include <cmath>

namespace hyperion::nn {
namespace {

at::Tensor balance_of(const std::vector<at::Tensor>& logits, int64_t choices, const at::Tensor& mask) {
  return balance_loss(router_sums({}, logits, choices, mask, /*squares=*/false), counted_tokens(logits.front(), mask));
}

at::Tensor z_of(const std::vector<at::Tensor>& logits, const at::Tensor& mask) {
  return router_z_loss(router_sums({}, logits, 1, mask, /*squares=*/true), counted_tokens(logits.front(), mask));
}

TEST(BalanceLoss, is_the_choices_where_routing_is_even_and_grows_to_the_experts_where_one_takes_all) {
  // Four tokens, each sure of another expert.
  const auto even = at::zeros({4, 4}).fill_diagonal_(100);
  EXPECT_NEAR(balance_of({even}, 1, {}).item<double>(), 1, 1e-5);
  auto one = at::zeros({4, 4});
  one.select(1, 2).fill_(100);
  EXPECT_NEAR(balance_of({one}, 1, {}).item<double>(), 4, 1e-5);
  // Layers count together: what one layer leaves idle another may use.
  auto other = at::zeros({4, 4});
  other.select(1, 1).fill_(100);
  EXPECT_NEAR(balance_of({one, other}, 1, {}).item<double>(), 2, 1e-5);
}

TEST(RouterLosses, leave_masked_tokens_out) {
  const auto logits = at::randn({6, 5}), padded = at::cat({logits, at::randn({2, 5}).mul(9)});
  const auto mask = at::tensor({1, 1, 1, 1, 1, 1, 0, 0}).to(at::kBool).view({2, 4});
  EXPECT_NEAR(balance_of({padded}, 2, mask).item<double>(), balance_of({logits}, 2, {}).item<double>(), 1e-5);
  EXPECT_NEAR(z_of({padded}, mask).item<double>(), z_of({logits}, {}).item<double>(), 1e-4);
}

TEST(RouterZLoss, is_the_mean_square_of_the_log_of_summed_exponentials) {
  const auto logits = at::tensor({0.0, std::log(3.0), 1.0, 1.0}).to(at::kFloat).view({2, 2});
  const double first = std::log(4.0), second = 1 + std::log(2.0);
  EXPECT_NEAR(z_of({logits}, {}).item<double>(), (first * first + second * second) / 2, 1e-5);
  EXPECT_NEAR(z_of({logits, logits}, {}).item<double>(), (first * first + second * second) / 2, 1e-5);
}

TEST(RouterLosses, have_gradients_that_push_against_imbalance_and_size) {
  auto logits = at::randn({16, 4});
  logits.select(1, 0).add_(2);
  logits.requires_grad_();
  balance_of({logits}, 1, {}).backward();
  EXPECT_GT(logits.grad().select(1, 0).sum().item<double>(), 0);
  logits.mutable_grad().reset();
  z_of({logits}, {}).backward();
  EXPECT_GT(logits.grad().min().item<double>(), 0);
}

// As stages of a pipeline have it: each adds its layers to what the one before handed on, gradients go back through it.
TEST(RouterLosses, of_layers_in_several_places_are_those_of_all) {
  std::vector<at::Tensor> logits;
  for (int i = 0; i < 5; ++i) logits.push_back(at::randn({7, 3}).requires_grad_());
  const auto tokens = counted_tokens(logits.front(), {});
  const auto all = router_sums({}, logits, 2, {}, /*squares=*/true);
  balance_loss(all, tokens).add(router_z_loss(all, tokens)).backward();
  std::vector<at::Tensor> expected;
  for (auto& layer : logits) expected.push_back(std::exchange(layer.mutable_grad(), {}));
  const auto first = router_sums({}, {logits[0], logits[1]}, 2, {}, /*squares=*/true);
  const auto handed_on = first.detach().requires_grad_();
  const auto last = router_sums(handed_on, {logits[2], logits[3], logits[4]}, 2, {}, /*squares=*/true);
  EXPECT_TRUE(last.equal(all));
  balance_loss(last, tokens).add(router_z_loss(last, tokens)).backward();
  first.backward(handed_on.grad());
  for (size_t i = 0; i < logits.size(); ++i) EXPECT_TRUE(at::allclose(logits[i].grad(), expected[i], 1e-6, 1e-8)) << i;
}

}  // namespace
}  // namespace hyperion::nn
