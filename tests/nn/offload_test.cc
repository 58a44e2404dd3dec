#include "hyperion/nn/offload.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "tests/nn/support_blocks.h"

namespace hyperion::nn {
namespace {

using namespace testing;

constexpr OffloadPolicy::Options kAll{.least_bytes = 0};

template <class Block>
void expect_the_same_with_every_recomputation() {
  const auto stack = stack_of<Block>(5);
  const auto input = at::randn({2, 9, 24}).requires_grad_();
  const auto none = trained(*stack, input, training_pass(9, 8));
  for (const auto mode : {Recompute::none, Recompute::blocks, Recompute::selective}) {
    auto pass = training_pass(9, 8);
    pass.recompute = mode;
    OffloadPolicy offload(kAll);
    const auto moved = trained(*stack, input, pass, &offload);
    expect_same(moved, none);
    EXPECT_EQ(moved.bytes, 0) << "all of it was moved";
    EXPECT_GT(offload.bytes(), 0);
  }
}

TEST(Offload, gives_the_same_bits_alone_and_with_recomputation) {
  expect_the_same_with_every_recomputation<GptBlock>();
  expect_the_same_with_every_recomputation<LlamaBlock>();
}

TEST(Offload, leaves_small_tensors_and_residents) {
  const auto small = at::randn({10}).requires_grad_(), large = at::randn({100}).requires_grad_();
  const auto frozen = at::randn({100});
  OffloadPolicy offload({.least_bytes = 300}, Residents({frozen}));
  const SaveScope scope(offload);
  const auto loss = small.mul(2).sin().sum().add(large.mul(frozen).sum()).add(large.mul(large).sum());
  EXPECT_EQ(offload.bytes(), 0) << "small, frozen, and a parameter";
  const auto more = large.mul(2).sin().sum();
  EXPECT_EQ(offload.bytes(), 400);
  loss.backward();
  more.backward();
  EXPECT_TRUE(large.grad().equal(frozen.add(large.detach().mul(2)).add(large.detach().mul(2).cos().mul(2))));
}

TEST(Offload, copies_a_storage_once_however_often_it_is_seen) {
  const auto input = at::randn({4, 6}).requires_grad_();
  OffloadPolicy offload(kAll);
  at::Tensor loss;
  {
    const SaveScope scope(offload);
    const auto hidden = input.mul(2);
    loss = hidden.sin()
               .sum()
               .add(hidden.t().cos().sum())
               .add(hidden.narrow(1, 2, 3).exp().sum().mul(0))
               .add(hidden.narrow(0, 1, 2).square().sum());
  }
  const int64_t hidden = 4 * 6 * 4, exponentials = 4 * 3 * 4;
  EXPECT_EQ(offload.bytes(), hidden + exponentials);
  loss.backward();
  const auto got = input.grad().clone();
  input.mutable_grad().reset();
  const auto again = input.mul(2);
  again.sin()
      .sum()
      .add(again.t().cos().sum())
      .add(again.narrow(1, 2, 3).exp().sum().mul(0))
      .add(again.narrow(0, 1, 2).square().sum())
      .backward();
  EXPECT_TRUE(got.equal(input.grad()));
}

// Remembers, without holding, the storage that its sine saves.
class Watched final : public Module {
 public:
  explicit Watched(const Toy&) {}
  at::Tensor forward(const at::Tensor& input, Pass&) override {
    const auto hidden = input.mul(2);
    storage.emplace(hidden.storage().getWeakStorageImpl());
    return hidden.sin();
  }
  std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> storage;
};

TEST(Offload, gives_back_a_block_s_memory_when_the_second_after_it_begins) {
  const auto stack = stack_of<Watched>(5);
  const auto input = at::randn({3, 4}).requires_grad_();
  OffloadPolicy offload(kAll);
  at::Tensor output;
  Pass pass;
  {
    const SaveScope scope(offload);
    output = stack->forward(input, pass);
  }
  std::vector<bool> gone;
  for (const auto& block : stack->children()) gone.push_back(dynamic_cast<Watched&>(*block).storage->expired());
  EXPECT_EQ(gone, (std::vector<bool>{true, true, true, false, false}));
  output.sum().backward();
  const auto got = input.grad().clone();
  input.mutable_grad().reset();
  stack->forward(input, pass).sum().backward();
  EXPECT_TRUE(got.equal(input.grad()));
}

TEST(Offload, refuses_a_tensor_changed_after_it_was_saved) {
  const auto input = at::randn({3, 4}).requires_grad_();
  for (const int blocks : {0, 3}) {
    OffloadPolicy offload(kAll);
    const SaveScope scope(offload);
    const auto hidden = input.mul(2);
    const auto loss = hidden.sin().sum();
    hidden.add_(1);
    for (int i = 0; i < blocks; ++i) enter_block();
    EXPECT_THROW(loss.backward(), base::Error);
  }
}

}  // namespace
}  // namespace hyperion::nn
