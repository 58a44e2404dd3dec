// Gradients of weights that a backward leaves: nothing of them is there before they are asked for, and then they are to
// the bit what one backward gives.
#include "hyperion/blocks/later_gradients.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "hyperion/blocks/block_ops.h"

namespace hyperion::blocks {
namespace {

using Leaves = std::vector<at::Tensor>;  // the input, then weights, then what is trained besides

struct Operation {
  const char* name;
  size_t weights;
  std::function<Leaves()> make;
  std::function<at::Tensor(const Leaves&, LaterGradients*)> run;
};

at::Tensor leaf(at::IntArrayRef sizes) { return at::randn(sizes, at::kFloat).requires_grad_(); }

std::vector<Operation> operations() {
  const auto one = [](bool in_out) { return Leaves{leaf({2, 5, 6}), in_out ? leaf({6, 8}) : leaf({8, 6}), leaf({8})}; };
  const auto two = [] { return Leaves{leaf({2, 5, 6}), leaf({8, 6}), leaf({4, 6}), leaf({8}), leaf({4}), leaf({6})}; };
  return {{"plain", 1, [one] { return one(false); },
           [](const Leaves& t, auto* later) { return plain_linear(t[0], t[1], t[2], false, later); }},
          {"plain in to out", 1, [one] { return one(true); },
           [](const Leaves& t, auto* later) { return plain_linear(t[0], t[1], t[2], true, later); }},
          {"norm and linears", 2, two,
           [](const Leaves& t, auto* later) {
             return norm_linear(t[0], {t[5], {}, 1e-5}, {{t[1], t[2]}, {t[3], t[4]}, false, {}, later}).second;
           }},
          {"joined linears", 2, two,
           [](const Leaves& t, auto* later) {
             return joined_linears(t[0], {{t[1], t[2]}, {t[3], t[4]}, false, {}, later}).mul(t[5].sum());
           }},
          {"residual", 1, [one] { return one(false); },
           [](const Leaves& t, auto* later) {
             return linear_residual(t[0], {{t[1]}, {t[2]}, false, {}, later}, at::Tensor());
           }},
          {"activated", 1, [one] { return one(true); },
           [](const Leaves& t, auto* later) {
             return activated_linear_residual(t[0].mul(1), kernels::Activation::gelu_tanh,
                                              {{t[1]}, {t[2]}, true, {}, later}, at::Tensor(), /*last_use=*/true);
           }}};
}

TEST(LaterGradients, are_made_when_asked_for_and_to_the_bit_those_of_one_backward) {
  for (const auto& [name, weights, make, run] : operations()) {
    SCOPED_TRACE(name);
    const auto leaves = make();
    const auto above = at::randn_like(run(leaves, nullptr).detach());
    run(leaves, nullptr).backward(above);
    Leaves expected;
    for (const auto& one : leaves) expected.push_back(std::exchange(one.mutable_grad(), {}));
    LaterGradients later;
    run(leaves, &later).backward(above);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const bool left = i > 0 && i <= weights;
      ASSERT_EQ(leaves[i].grad().defined(), !left) << i;
    }
    later.make();
    for (size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(leaves[i].grad().equal(expected[i])) << i;
    later.make();  // nothing is left
    for (size_t i = 0; i < leaves.size(); ++i) EXPECT_TRUE(leaves[i].grad().equal(expected[i])) << i;
  }
}

// Frozen ones get none, and what is no leaf has a backward that runs once.
TEST(LaterGradients, of_what_is_frozen_or_made_of_others_are_not_left) {
  const auto input = leaf({3, 4}), weight = leaf({5, 4}), frozen = at::randn({5, 4}, at::kFloat);
  LaterGradients later;
  plain_linear(input, weight.mul(2), {}, false, &later).sum().backward();
  EXPECT_TRUE(weight.grad().defined());
  weight.mutable_grad().reset();
  linear_residual(input, {{frozen}, {}, false, {}, &later}, {}).sum().backward();
  joined_linears(input, {{frozen, weight}, {}, false, {}, &later}).sum().backward();
  EXPECT_FALSE(weight.grad().defined());
  later.make();
  EXPECT_TRUE(weight.grad().allclose(input.detach().sum(0).expand({5, 4})));
  EXPECT_FALSE(frozen.grad().defined());
}

}  // namespace
}  // namespace hyperion::blocks
