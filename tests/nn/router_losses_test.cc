#include "hyperion/nn/router_losses.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

namespace hyperion::nn {
namespace {

TEST(BalanceLoss, is_the_choices_where_routing_is_even_and_grows_to_the_experts_where_one_takes_all) {
  // Four tokens, each sure of another expert.
  const auto even = at::zeros({4, 4}).fill_diagonal_(100);
  EXPECT_NEAR(balance_loss({even}, 1, {}).item<double>(), 1, 1e-5);
  auto one = at::zeros({4, 4});
  one.select(1, 2).fill_(100);
  EXPECT_NEAR(balance_loss({one}, 1, {}).item<double>(), 4, 1e-5);
  // Layers count together: what one layer leaves idle another may use.
  auto other = at::zeros({4, 4});
  other.select(1, 1).fill_(100);
  EXPECT_NEAR(balance_loss({one, other}, 1, {}).item<double>(), 2, 1e-5);
}

TEST(RouterLosses, leave_masked_tokens_out) {
  const auto logits = at::randn({6, 5}), padded = at::cat({logits, at::randn({2, 5}).mul(9)});
  const auto mask = at::tensor({1, 1, 1, 1, 1, 1, 0, 0}).to(at::kBool).view({2, 4});
  EXPECT_NEAR(balance_loss({padded}, 2, mask).item<double>(), balance_loss({logits}, 2, {}).item<double>(), 1e-5);
  EXPECT_NEAR(router_z_loss({padded}, mask).item<double>(), router_z_loss({logits}, {}).item<double>(), 1e-4);
}

TEST(RouterZLoss, is_the_mean_square_of_the_log_of_summed_exponentials) {
  const auto logits = at::tensor({0.0, std::log(3.0), 1.0, 1.0}).to(at::kFloat).view({2, 2});
  const double first = std::log(4.0), second = 1 + std::log(2.0);
  EXPECT_NEAR(router_z_loss({logits}, {}).item<double>(), (first * first + second * second) / 2, 1e-5);
  EXPECT_NEAR(router_z_loss({logits, logits}, {}).item<double>(), (first * first + second * second) / 2, 1e-5);
}

TEST(RouterLosses, have_gradients_that_push_against_imbalance_and_size) {
  auto logits = at::randn({16, 4});
  logits.select(1, 0).add_(2);
  logits.requires_grad_();
  balance_loss({logits}, 1, {}).backward();
  EXPECT_GT(logits.grad().select(1, 0).sum().item<double>(), 0);
  logits.mutable_grad().reset();
  router_z_loss({logits}, {}).backward();
  EXPECT_GT(logits.grad().min().item<double>(), 0);
}

}  // namespace
}  // namespace hyperion::nn
