#include "hyperion/nn/experts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/devices.h"

namespace hyperion::nn {
namespace {

using testing::relative_error;

MixtureShape small() {
  MixtureShape shape{.expert = {.width = 8, .inner = 16, .init = Init::normal(0.5), .residual_init = Init::normal(0.5)},
                     .experts = 5,
                     .choices = 2};
  return shape;
}

std::vector<int64_t> numbers(const at::Tensor& tensor) {
  const auto flat = tensor.to(at::kLong).contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

// Tokens 0, 1, 2 and so on, one number wide, each sent with weight 1 to the experts given.
Dispatched sent(const at::Tensor& experts, int64_t count, int64_t capacity) {
  const auto tokens = at::arange(experts.size(0), at::kFloat).unsqueeze(1).add(1);
  return LocalDispatcher().dispatch(tokens, {experts, at::full(experts.sizes(), 1, at::kFloat)}, count, {capacity});
}

TEST(Route, takes_the_likeliest_in_order_and_normalises_where_told) {
  const auto logits = at::tensor({0.0, 3.0, 1.0, 2.0}).view({1, 4}).to(at::kBFloat16);
  const auto plain = route(logits, 2, false), normalised = route(logits, 2, true);
  EXPECT_EQ(numbers(plain.experts), (std::vector<int64_t>{1, 3}));
  const double all = 1 + std::exp(1.0) + std::exp(2.0) + std::exp(3.0);
  EXPECT_EQ(plain.weights.scalar_type(), at::kFloat);
  EXPECT_NEAR(plain.weights[0][0].item<double>(), std::exp(3.0) / all, 1e-6);
  EXPECT_NEAR(plain.weights[0][1].item<double>(), std::exp(2.0) / all, 1e-6);
  EXPECT_NEAR(normalised.weights[0][0].item<double>(), 1 / (1 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(normalised.weights.sum().item<double>(), 1, 1e-6);
}

TEST(Dispatch, sorts_by_expert_keeping_the_tokens_order_and_brings_back_sums) {
  const auto dispatched = sent(at::tensor({3, 0, 0, 1, 3, 0}, at::kLong).view({3, 2}), 4, 0);
  EXPECT_EQ(numbers(dispatched.rows), (std::vector<int64_t>{1, 2, 3, 2, 1, 3}));
  EXPECT_EQ(numbers(dispatched.ends), (std::vector<int64_t>{3, 4, 4, 6}));
  EXPECT_EQ(numbers(dispatched.combine(dispatched.rows)), (std::vector<int64_t>{2, 4, 6}));
  // Expert 1's only row is token 1's.
  auto answers = at::zeros({6, 1});
  answers[3] = 10;
  EXPECT_EQ(numbers(dispatched.combine(answers)), (std::vector<int64_t>{0, 10, 0}));
}

TEST(Dispatch, drops_the_last_tokens_over_capacity_and_fills_up_with_zeros) {
  const auto dispatched = sent(at::tensor({1, 1, 0, 1, 1}, at::kLong).view({5, 1}), 3, 2);
  EXPECT_EQ(numbers(dispatched.rows), (std::vector<int64_t>{3, 0, 1, 2, 0, 0}));
  EXPECT_EQ(numbers(dispatched.ends), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(numbers(dispatched.combine(dispatched.rows)), (std::vector<int64_t>{1, 2, 3, 0, 0}));
}

TEST(Dispatch, with_room_for_all_is_the_same_in_value_and_gradient_as_without_capacity) {
  std::vector<std::vector<at::Tensor>> results;
  const auto tokens = at::randn({7, 3}), weights = at::randn({7, 2}), factors = at::randn({7, 3});
  const auto experts = route(at::randn({7, 4}), 2, false).experts;
  for (const int64_t capacity : {0, 7}) {
    const auto x = tokens.clone().requires_grad_(), w = weights.clone().requires_grad_();
    const auto dispatched = LocalDispatcher().dispatch(x, {experts, w}, 4, {capacity});
    const auto out = dispatched.combine(dispatched.rows.square());
    out.mul(factors).sum().backward();
    results.push_back({out.detach(), x.grad(), w.grad()});
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_LT(relative_error(results[0][i], results[1][i]), 1e-6) << i;
  // Against what it means: each token's answer weighted by all its weights together.
  const auto sums = weights.sum(1, true);
  EXPECT_LT(relative_error(results[0][0], tokens.square().mul(sums)), 1e-6);
  EXPECT_LT(relative_error(results[0][1], tokens.mul(2).mul(sums).mul(factors)), 1e-6);
}

TEST(Capacity, is_the_fair_share_times_the_factor_between_one_and_all_tokens) {
  auto shape = small();
  EXPECT_EQ(capacity_of(100, shape), 0);
  shape.capacity_factor = 1.25;
  EXPECT_EQ(capacity_of(100, shape), 50);
  EXPECT_EQ(capacity_of(101, shape), 51);
  EXPECT_EQ(capacity_of(1, shape), 1);
  shape.capacity_factor = 1000;
  EXPECT_EQ(capacity_of(100, shape), 100);
}

ExpertList experts_of(const MixtureShape& shape, at::ScalarType type) {
  ExpertList list;
  for (int64_t i = 0; i < shape.experts; ++i) {
    list.push_back(std::make_shared<GatedFeedForward>(shape.expert));
    list.back()->initialise(static_cast<uint64_t>(i));
    list.back()->move_to(at::kCPU, type);
  }
  return list;
}

at::Tensor one_by_one(const at::Tensor& rows, const at::Tensor& ends, const ExpertList& experts) {
  Pass pass;
  std::vector<at::Tensor> answers;
  int64_t first = 0;
  for (size_t i = 0; i < experts.size(); ++i) {
    const int64_t end = ends[static_cast<int64_t>(i)].item<int64_t>();
    answers.push_back(experts[i]->forward(rows.narrow(0, first, end - first), pass));
    first = end;
  }
  return at::cat(answers);
}

TEST(GroupedExperts, agree_with_the_loop_in_value_and_gradient) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto experts = experts_of(small(), type);
    const auto ends = at::tensor({3, 3, 10, 11, 24}, at::kInt);  // the second gets none
    const auto input = at::randn({24, 8}).to(type), factors = at::randn({24, 8}).to(type);
    std::vector<std::vector<at::Tensor>> results;
    for (const bool grouped : {true, false}) {
      const auto rows = input.clone().requires_grad_();
      const auto out = grouped ? grouped_experts(rows, ends, experts, {}) : one_by_one(rows, ends, experts);
      out.mul(factors).sum().backward();
      results.push_back({out.detach(), rows.grad()});
      for (const auto& expert : experts)
        for (auto& parameter : expert->list_parameters()) {
          results.back().push_back(parameter.tensor.grad().clone());
          parameter.tensor.mutable_grad().reset();
        }
    }
    ASSERT_EQ(results[0].size(), 2U + 5 * 3);
    for (size_t i = 0; i < results[0].size(); ++i)
      EXPECT_LE(relative_error(results[0][i], results[1][i]), type == at::kFloat ? 1e-5 : 0.02) << i;
  }
}

TEST(Mixture, is_the_weighted_sum_of_each_tokens_experts_and_the_gated_shared_one) {
  auto shape = small();
  shape.shared_inner = 12, shape.normalised = false;
  const auto mixture = std::make_shared<MixtureOfExperts>(shape);
  mixture->initialise(3);
  const auto input = at::randn({2, 3, 8});
  Pass pass;
  const auto out = mixture->forward(input, pass);
  ASSERT_EQ(pass.router_logits.size(), 1U);
  const auto routing = route(pass.router_logits[0], 2, false);

  const auto run = [&](const std::string& name, const at::Tensor& token) {
    return dynamic_cast<Module&>(*mixture->named_modules()[name]).forward(token, pass);
  };
  for (int64_t i = 0; i < 6; ++i) {
    const auto token = input.view({6, 8}).narrow(0, i, 1);
    auto expected = run("shared_expert", token).mul(run("shared_expert_gate", token).sigmoid());
    for (int64_t j = 0; j < 2; ++j) {
      const auto expert = std::to_string(routing.experts[i][j].item<int64_t>());
      expected = expected.add(run("experts." + expert, token).mul(routing.weights[i][j]));
    }
    EXPECT_LT(relative_error(out.view({6, 8}).narrow(0, i, 1), expected), 1e-5) << i;
  }
}

TEST(Mixture, gives_every_expert_a_gradient_though_no_token_came_by) {
  MixtureOfExperts mixture(small());
  mixture.initialise(3);
  Pass pass;
  mixture.forward(at::randn({1, 1, 8}), pass).sum().backward();
  int64_t idle = 0;
  for (const auto& parameter : mixture.list_parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    if (parameter.tensor.grad().abs().max().item<double>() == 0) ++idle;
  }
  EXPECT_EQ(idle, 3 * 3);
}

TEST(Mixture, drops_tokens_over_capacity_in_training_alone) {
  auto shape = small();
  shape.choices = 1, shape.capacity_factor = 1e-9;  // one token an expert
  MixtureOfExperts mixture(shape);
  mixture.initialise(3);
  const auto input = at::randn({1, 1, 8}).expand({1, 4, 8});  // all go to one expert
  Pass training, not_training;
  training.training = true;
  const auto dropped = mixture.forward(input, training), whole = mixture.forward(input, not_training);
  EXPECT_LT(relative_error(dropped.narrow(1, 0, 1), whole.narrow(1, 0, 1)), 1e-6);
  EXPECT_EQ(dropped.narrow(1, 1, 3).abs().max().item<double>(), 0);
  EXPECT_GT(whole.narrow(1, 1, 3).abs().min().item<double>(), 0);
}

// A padded batch against the same tokens without padding, in value and gradient.
TEST(Mixture, gives_padding_none_of_its_capacity) {
  auto shape = small();
  shape.capacity_factor = 0.6;
  for (const bool reference : {false, true}) {
    MixtureOfExperts mixture(shape);
    mixture.initialise(3);
    const auto tokens = at::randn({1, 37, 8}), upstream = at::randn({1, 37, 8});
    const auto positions = at::randperm(60, at::kLong).narrow(0, 0, 37);
    const auto real = std::get<0>(positions.sort());
    Pass plain, padded;
    plain.training = padded.training = true;
    plain.reference = padded.reference = reference;
    const auto x = tokens.clone().requires_grad_();
    const auto alone = mixture.forward(x, plain);
    alone.backward(upstream);
    std::vector<at::Tensor> gradients;
    for (const auto& parameter : mixture.list_parameters())
      gradients.push_back(std::exchange(parameter.tensor.mutable_grad(), {}));
    padded.token_mask = at::zeros({60}, at::kBool).index_fill(0, real, true).view({3, 20});
    const auto y = at::randn({60, 8}).index_copy(0, real, tokens[0]).requires_grad_();
    const auto all = mixture.forward(y.view({3, 20, 8}), padded).view({60, 8});
    all.index_select(0, real).backward(upstream[0]);
    EXPECT_LT(relative_error(all.detach().index_select(0, real), alone.detach()[0]), 1e-6);
    EXPECT_LT(relative_error(y.grad().index_select(0, real), x.grad()[0]), 1e-6);
    size_t i = 0;
    for (const auto& parameter : mixture.list_parameters())
      EXPECT_LT(relative_error(parameter.tensor.grad(), gradients[i++]), 1e-5) << parameter.name;
    EXPECT_EQ(capacity_of(padded.token_mask, shape).item<int64_t>(), capacity_of(37, shape));
  }
}

}  // namespace
}  // namespace hyperion::nn
