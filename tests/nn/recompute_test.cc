#include "hyperion/nn/recompute.h"

#include <ATen/ops/relu.h>
#include <gtest/gtest.h>

#include <thread>

#include "hyperion/base/error.h"
#include "tests/nn/support_blocks.h"

namespace hyperion::nn {
namespace {

using namespace testing;

Pass asking(Pass pass, Recompute recompute, int64_t every = 1) {
  pass.recompute = recompute, pass.recompute_every = every;
  return pass;
}

template <class Block>
void expect_every_mode_the_same(std::initializer_list<std::pair<int64_t, int64_t>> shapes) {
  const auto stack = stack_of<Block>(3);
  for (const auto& [batch, length] : shapes)
    for (const bool with_grad : {true, false}) {
      const auto input = at::randn({batch, length, 24}).requires_grad_(with_grad);
      const auto pass = training_pass(length, 8);
      const auto none = trained(*stack, input, pass);
      const auto full = trained(*stack, input, asking(pass, Recompute::blocks));
      const auto second = trained(*stack, input, asking(pass, Recompute::blocks, 2));
      const auto selective = trained(*stack, input, asking(pass, Recompute::selective));
      for (const auto* other : {&full, &second, &selective}) expect_same(*other, none);
      EXPECT_LT(full.bytes, none.bytes / 4);
      EXPECT_LT(full.bytes, second.bytes);
      EXPECT_LT(second.bytes, none.bytes);
      EXPECT_LT(selective.bytes, none.bytes * 3 / 4);
      EXPECT_LT(full.bytes, selective.bytes);
    }
}

TEST(Recompute, gives_the_same_bits_and_holds_less_on_gpt_blocks) {
  expect_every_mode_the_same<GptBlock>({{3, 17}, {1, 1}});
}

TEST(Recompute, gives_the_same_bits_and_holds_less_on_gated_rotary_blocks_that_write_to_the_pass) {
  expect_every_mode_the_same<LlamaBlock>({{3, 17}, {1, 1}});
}

TEST(Recompute, leaves_in_the_pass_what_one_forward_leaves) {
  const auto stack = stack_of<LlamaBlock>(3);
  auto pass = asking(training_pass(6, 8), Recompute::blocks);
  const auto output = stack->forward(at::randn({1, 6, 24}), pass);
  loss_of(output, pass).backward();
  EXPECT_EQ(pass.router_logits.size(), 3u);
  EXPECT_EQ(pass.blocks, 3);
}

// A block of blocks, the same one twice.
class Outer final : public Module {
 public:
  explicit Outer(const Toy& toy) {
    inner_ = register_module("inner", stack_of<GptBlock>(2, toy.width, toy.heads));
    shared_ = register_module("shared", std::make_shared<LlamaBlock>(toy));
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto once = run_unit(*shared_, Unit::block, run(*inner_, input, pass), pass);
    return run_unit(*shared_, Unit::block, once, pass);
  }

 private:
  std::shared_ptr<Stack> inner_;
  std::shared_ptr<LlamaBlock> shared_;
};

TEST(Recompute, nests_and_repeats_blocks) {
  const auto stack = stack_of<Outer>(2);
  for (const bool with_grad : {true, false}) {
    const auto input = at::randn({2, 7, 24}).requires_grad_(with_grad);
    const auto pass = training_pass(7, 8);
    const auto none = trained(*stack, input, pass);
    for (const int64_t every : {1, 2, 3}) {
      const auto some = trained(*stack, input, asking(pass, Recompute::blocks, every));
      expect_same(some, none);
      EXPECT_LT(some.bytes, none.bytes);
    }
    expect_same(trained(*stack, input, asking(pass, Recompute::selective)), none);
  }
}

TEST(Recompute, nests_where_the_input_goes_straight_to_the_inner_region) {
  const auto weight = at::randn({4, 4}).requires_grad_();
  const auto inner = [&](const std::vector<at::Tensor>& in) { return in[0].mul(in[0]); };
  const auto outer = [&](const std::vector<at::Tensor>& in) {
    return recompute_region(in, inner, inner).matmul(weight).tanh();
  };
  const auto gradients = [&](const at::Tensor& input, bool recomputed) {
    weight.mutable_grad().reset();
    input.mutable_grad().reset();
    const auto in = input.is_leaf() ? input : input.mul(1);
    (recomputed ? recompute_region({in}, outer, outer) : inner({in}).matmul(weight).tanh()).sum().backward();
    return Outcome{{input.grad(), weight.grad()}, 0};
  };
  const auto leaf = at::randn({3, 4}).requires_grad_();
  expect_same(gradients(leaf, true), gradients(leaf, false));
}

struct Counting {
  int calls = 0, endings = 0;
  RegionFunction function() {
    return [this](const std::vector<at::Tensor>& in) {
      ++calls;
      const auto bent = in[0].tanh().sin();  // both save a tensor; the addition saves none
      ++endings;
      return bent.add(1);
    };
  }
};

TEST(Recompute, runs_once_more_and_stops_when_it_has_enough) {
  Counting count;
  const auto input = at::randn({5}).requires_grad_();
  const auto output = recompute_region({input}, count.function(), count.function());
  EXPECT_EQ(count.calls, 1);
  output.sum().backward();
  EXPECT_EQ(count.calls, 2);
  EXPECT_EQ(count.endings, 1) << "what comes after the last saved tensor is not run again";
}

TEST(Recompute, of_an_output_nobody_uses_never_runs) {
  Counting count;
  const auto input = at::randn({5}).requires_grad_();
  recompute_region({input}, count.function(), count.function());
  const auto unused = recompute_region({input}, count.function(), count.function());
  input.mul(2).sum().backward();
  EXPECT_EQ(count.calls, 2);
  EXPECT_EQ(input.grad()[0].item<float>(), 2);
}

TEST(Recompute, without_gradients_is_the_function_alone) {
  Counting count;
  const c10::AutoGradMode off(false);
  recompute_region({at::randn({5})}, count.function(), nullptr);
  EXPECT_EQ(count.calls, 1);
}

TEST(Recompute, serves_a_retained_graph_again) {
  const auto stack = stack_of<GptBlock>(2);
  for (const auto mode : {Recompute::blocks, Recompute::selective}) {
    const auto input = at::randn({2, 5, 24}).requires_grad_();
    auto pass = asking(training_pass(5, 8), mode);
    const auto loss = loss_of(stack->forward(input, pass), pass);
    loss.backward({}, /*retain_graph=*/true);
    const auto first = input.grad().clone();
    input.mutable_grad().reset();
    loss.backward();
    EXPECT_TRUE(first.equal(input.grad()));
    EXPECT_THROW(loss.backward(), std::exception) << "the graph is freed";
  }
}

TEST(Recompute, that_throws_fails_the_backward_and_may_be_tried_again) {
  bool broken = true;
  const auto now = [](const std::vector<at::Tensor>& in) { return in[0].sin().tanh(); };
  const auto again = [&](const std::vector<at::Tensor>& in) {
    const auto half = in[0].sin();
    if (broken) throw base::Error("no room");
    return half.tanh();
  };
  const auto input = at::randn({5}).requires_grad_();
  const auto loss = recompute_region({input}, now, again).sum();
  EXPECT_THROW(loss.backward({}, true), base::Error);
  EXPECT_EQ(SaveScope::top(), nullptr);
  broken = false;
  input.mutable_grad().reset();
  loss.backward();
  const auto got = input.grad().clone();
  input.mutable_grad().reset();
  now({input}).sum().backward();
  EXPECT_TRUE(got.equal(input.grad()));
}

TEST(Recompute, refuses_a_function_that_does_not_repeat_itself) {
  const auto input = at::randn({6}).requires_grad_();
  const auto now = [](const std::vector<at::Tensor>& in) { return in[0].sin().tanh(); };
  const auto fewer = [](const std::vector<at::Tensor>& in) { return in[0].sin(); };
  const auto other = [](const std::vector<at::Tensor>& in) { return in[0].view({2, 3}).sin().tanh(); };
  EXPECT_THROW(recompute_region({input}, now, fewer).sum().backward(), base::Error);
  EXPECT_THROW(recompute_region({input}, now, other).sum().backward(), base::Error);
}

TEST(Recompute, refuses_a_tensor_changed_in_place_as_autograd_does) {
  const auto input = at::randn({6}).requires_grad_();
  const auto changing = [](const std::vector<at::Tensor>& in) {
    const auto bent = in[0].tanh();
    bent.add_(1);
    return bent.square();
  };
  EXPECT_THROW(changing({input}).sum().backward(), std::exception);
  EXPECT_THROW(recompute_region({input}, changing, changing).sum().backward(), base::Error);
}

TEST(Recompute, works_in_whatever_thread_runs_the_backward) {
  const auto stack = stack_of<GptBlock>(2);
  const auto input = at::randn({2, 5, 24}).requires_grad_();
  const auto none = trained(*stack, input, training_pass(5, 8));
  for (auto& parameter : stack->parameters()) parameter.mutable_grad().reset();
  input.mutable_grad().reset();
  auto pass = asking(training_pass(5, 8), Recompute::blocks);
  Outcome outcome{{stack->forward(input, pass)}, 0};
  std::thread([&] { loss_of(outcome.tensors[0], pass).backward(); }).join();
  outcome.tensors.push_back(input.grad());
  for (const auto& parameter : stack->parameters()) outcome.tensors.push_back(parameter.grad());
  expect_same(outcome, none);
}

// Running statistics as a batch norm keeps them, changed in place.
class Statistics final : public Module {
 public:
  explicit Statistics(const Toy&) { mean = register_buffer("mean", at::ones({24})); }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    if (!pass.recomputing) mean.mul_(0.5).add_(input.detach().view({-1, 24}).mean(0), 0.5);
    return at::relu(input.mul(2)).sin();
  }
  at::Tensor mean;
};

TEST(Recompute, tells_blocks_so_that_statistics_move_once) {
  const auto input = at::randn({2, 5, 24}).requires_grad_();
  std::vector<at::Tensor> means;
  for (const auto mode : {Recompute::none, Recompute::blocks}) {
    const auto stack = stack_of<Statistics>(2);
    auto pass = asking({}, mode);
    stack->forward(input, pass).sum().backward();
    for (const auto& buffer : stack->buffers()) means.push_back(buffer);
  }
  EXPECT_TRUE(means[0].equal(means[2]));
  EXPECT_TRUE(means[1].equal(means[3]));
}

TEST(Selective, keeps_nothing_for_an_activation_between_products) {
  const auto input = at::randn({64, 24}).requires_grad_();
  const auto first = std::make_shared<Linear>(24, 96, true, Init::normal(0.1));
  const auto last = std::make_shared<Linear>(96, 24, true, Init::normal(0.1));
  class Pair final : public Module {
   public:
    Pair(std::shared_ptr<Linear> a, std::shared_ptr<Linear> b) : a_(std::move(a)), b_(std::move(b)) {}
    at::Tensor forward(const at::Tensor& in, Pass& pass) override {
      return run(*b_, dropout(gelu(run(*a_, in, pass), pass), 0.5, "x", 0, pass), pass);
    }

   private:
    std::shared_ptr<Linear> a_, b_;
  };
  Stack stack(1, [&](int64_t) { return std::make_shared<Pair>(first, last); });
  first->initialise(1), last->initialise(2);
  auto pass = training_pass(64, 8);
  const auto none = trained(stack, input, pass);
  const auto selective = trained(stack, input, asking(pass, Recompute::selective));
  expect_same(selective, none);
  const int64_t wide = 64 * 96 * 4, output = 64 * 24 * 4;
  EXPECT_EQ(none.bytes, 2 * wide + output) << "before the activation and after the dropout";
  EXPECT_EQ(selective.bytes, wide + output);
}

}  // namespace
}  // namespace hyperion::nn
