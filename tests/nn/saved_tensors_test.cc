#include "hyperion/nn/saved_tensors.h"

#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/nn/saved_bytes.h"

namespace hyperion::nn {
namespace {

// Writes down who was asked; takes what it is told to.
struct Scribe final : SavePolicy {
  Scribe(std::string& record, char name, bool takes) : record(record), name(name), takes(takes) {}
  std::unique_ptr<SavedTensor> pack(const at::Tensor& tensor, const SaveScope&) override {
    record += name;
    return takes ? keep(tensor) : nullptr;
  }
  std::string& record;
  char name;
  bool takes;
};

TEST(SavedTensors, asks_from_the_top_down_until_one_takes_the_tensor) {
  std::string record;
  Scribe bottom(record, 'a', true), middle(record, 'b', true), top(record, 'c', false);
  const auto input = at::randn({4}).requires_grad_();
  at::Tensor loss;
  {
    const SaveScope one(bottom), two(middle), three(top);
    loss = input.mul(2).sin().sum();
  }
  EXPECT_EQ(record, "cb");
  EXPECT_EQ(SaveScope::top(), nullptr);
  loss.backward();
  EXPECT_TRUE(input.grad().equal(input.detach().mul(2).cos().mul(2)));
  input.mul(2).sin().sum().backward();
  EXPECT_EQ(record, "cb") << "no scope, no question";
}

TEST(SavedTensors, belong_to_the_thread_that_opened_the_scope) {
  std::string record;
  Scribe policy(record, 'a', false);
  const SaveScope scope(policy);
  std::thread([] { at::randn({4}).requires_grad_().mul(2).sin().sum().backward(); }).join();
  EXPECT_EQ(record, "");
}

TEST(SavedTensors, hold_no_graph_alive_by_a_result_that_its_own_node_saves) {
  SavedBytesMeter meter;
  {
    const SaveScope scope(meter);
    const auto input = at::randn({4}).requires_grad_();
    const auto result = input.exp().tanh();
    EXPECT_EQ(meter.bytes(), 32);
  }
  EXPECT_EQ(meter.bytes(), 0);
  EXPECT_EQ(meter.peak(), 32);
}

TEST(SavedTensors, refuse_what_was_changed_in_place) {
  SavedBytesMeter meter;
  const SaveScope scope(meter);
  const auto input = at::randn({4}).requires_grad_(), hidden = input.mul(2);
  const auto loss = hidden.sin().sum();
  hidden.add_(1);
  EXPECT_THROW(loss.backward(), base::Error);
}

TEST(SavedTensors, know_parameters_and_their_views) {
  const auto weight = at::randn({4, 3}).requires_grad_(), frozen = at::randn({4});
  EXPECT_TRUE(is_parameter(weight));
  EXPECT_TRUE(is_parameter(weight.t()));
  EXPECT_TRUE(is_parameter(weight.view({2, 6}).narrow(0, 0, 1)));
  EXPECT_FALSE(is_parameter(weight.mul(2)));
  EXPECT_FALSE(is_parameter(weight.mul(2).t()));
  EXPECT_FALSE(is_parameter(frozen));
  const Residents residents({frozen});
  EXPECT_TRUE(residents.contains(frozen.view({2, 2})));
  EXPECT_TRUE(residents.contains(weight.t()));
  EXPECT_FALSE(residents.contains(frozen.mul(2)));
}

TEST(SavedBytes, count_each_storage_once_and_no_parameter) {
  SavedBytesMeter meter;
  const SaveScope scope(meter);
  const auto weight = at::randn({8, 8}).requires_grad_();
  const auto hidden = at::randn({8, 8}).mul(2);
  const auto loss = hidden.matmul(weight).sum().add(hidden.t().matmul(weight).sum());
  EXPECT_EQ(meter.bytes(), 8 * 8 * 4);
  loss.backward();
  EXPECT_EQ(meter.bytes(), 0);
}

}  // namespace
}  // namespace hyperion::nn
