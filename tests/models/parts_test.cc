// A model run by its parts, one call after the other, is the model.
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "hyperion/models/parts.h"
#include "hyperion/nn/module.h"
#include "tests/models/support_variants.h"

namespace hyperion::models {
namespace {

struct Form {
  const char* name;
  bool reference, fused;
  nn::Recompute recompute = nn::Recompute::none;
};
constexpr Form kForms[] = {{"reference", true, false},
                           {"plain", false, false},
                           {"fused", false, true},
                           {"recomputed", false, true, nn::Recompute::blocks}};

nn::Pass pass_in(const Form& form) {
  nn::Pass pass;
  pass.training = true, pass.seed = 3, pass.step = 4;
  pass.reference = form.reference, pass.fused_blocks = form.fused, pass.recompute = form.recompute;
  return pass;
}

struct Example {
  at::Tensor input, targets;
};

Example example_for(const Model& model) {
  if (model.input() == Input::images) return {at::randn({3, 3, 16, 16}), at::randint(0, 7, {3}, at::kLong)};
  const auto ids = at::randint(0, 301, {3, 11}, at::kLong);
  return {ids, ids.roll(1, 1)};
}

at::Tensor through_each_block(Parts& parts, const at::Tensor& input, nn::Pass& pass) {
  at::Tensor hidden = parts.first(input, pass);
  parts.begin_blocks(hidden, pass);
  for (const auto& block : parts.blocks().blocks()) hidden = nn::run_unit(*block, nn::Unit::block, hidden, pass);
  return hidden;
}

// The loss, with the model's own, and every gradient.
std::vector<at::Tensor> learned(Model& model, const at::Tensor& loss, const nn::Pass& pass) {
  (pass.auxiliary_loss.defined() ? loss + pass.auxiliary_loss : loss).backward();
  std::vector<at::Tensor> list = {loss.detach()};
  if (pass.auxiliary_loss.defined()) list.push_back(pass.auxiliary_loss.detach());
  for (auto& parameter : model.parameters()) {
    list.push_back(parameter.tensor.grad());
    parameter.tensor.mutable_grad().reset();
  }
  return list;
}

void expect_same(const std::vector<at::Tensor>& one, const std::vector<at::Tensor>& other) {
  ASSERT_EQ(one.size(), other.size());
  for (size_t i = 0; i < one.size(); ++i) {
    ASSERT_EQ(one[i].defined(), other[i].defined()) << i;
    if (one[i].defined()) {
      EXPECT_TRUE(one[i].equal(other[i])) << i;
    }
  }
}

TEST(Parts, one_after_the_other_are_the_model_to_the_bit) {
  for (const auto& variant : testing::model_variants())
    for (const auto& form : kForms) {
      SCOPED_TRACE(std::string(variant.name) + ", " + form.name);
      const auto model = testing::made(variant);
      auto* parts = model->parts();
      ASSERT_EQ(parts == nullptr, std::string(variant.name) == "resnet");
      if (parts == nullptr) continue;
      const auto [input, targets] = example_for(*model);
      auto whole = pass_in(form), logits = pass_in(form), by_hand = pass_in(form), again = pass_in(form);
      const auto expected = learned(*model, model->loss(input, targets, whole), whole);
      expect_same(
          learned(*model, parts->last_loss(through_each_block(*parts, input, by_hand), targets, by_hand), by_hand),
          expected);
      const auto found = parts->last(through_each_block(*parts, input, again), again);
      EXPECT_TRUE(found.equal(model->logits(input, logits)));
      EXPECT_EQ(again.auxiliary_loss.defined(), logits.auxiliary_loss.defined());
    }
}

// As two processes would run them, each with a pass of its own: nothing but hidden states and their gradient crosses.
TEST(Parts, of_two_stages_need_hidden_states_alone) {
  for (const auto& variant : testing::model_variants())
    for (const auto& form : kForms) {
      SCOPED_TRACE(std::string(variant.name) + ", " + form.name);
      const auto model = testing::made(variant);
      auto* parts = model->parts();
      if (parts == nullptr) continue;
      const auto [input, targets] = example_for(*model);
      // The balance of experts is one of all layers, so that a stage cannot know it; it is left out here.
      auto whole = pass_in(form), front = pass_in(form), back = pass_in(form);
      const auto loss = model->loss(input, targets, whole);
      whole.auxiliary_loss.reset();
      const auto expected = learned(*model, loss, whole);

      const auto& blocks = parts->blocks().blocks();
      at::Tensor sent = parts->first(input, front);
      parts->begin_blocks(sent, front);
      sent = nn::run_unit(*blocks[0], nn::Unit::block, sent, front);
      const auto received = sent.detach().requires_grad_();
      parts->begin_blocks(received, back);
      const auto hidden = nn::run_unit(*blocks[1], nn::Unit::block, received, back);
      const auto found = parts->last_loss(hidden, targets, back);
      found.backward();
      sent.backward(received.grad());
      std::vector<at::Tensor> list = {found.detach()};
      for (auto& parameter : model->parameters()) list.push_back(parameter.tensor.grad());
      expect_same(list, expected);
    }
}

}  // namespace
}  // namespace hyperion::models
