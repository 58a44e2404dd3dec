#include "hyperion/train/schedule.h"

#include <gtest/gtest.h>

#include "hyperion/base/words.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/stepper.h"
#include "tests/support/devices.h"

namespace hyperion::train {
namespace {

using Work = Instruction::Work;

std::string text_of(const std::vector<Instruction>& list) {
  std::string text;
  for (const auto& [work, index] : list) text += (work == Work::forward ? "f" : "b") + std::to_string(index);
  return text;
}

// All forward, then all backward, each in the order of the micro-batches.
std::vector<Instruction> in_two_rounds(int64_t count) {
  std::vector<Instruction> list;
  for (const Work work : {Work::forward, Work::backward})
    for (int64_t index = 0; index < count; ++index) list.push_back({work, index});
  return list;
}

// Two micro-batches under way at any time, as on the first of two stages of a pipeline.
std::vector<Instruction> two_under_way(int64_t count) {
  std::vector<Instruction> list = {{Work::forward, 0}};
  for (int64_t index = 1; index < count; ++index) {
    list.push_back({Work::forward, index});
    list.push_back({Work::backward, index - 1});
  }
  list.push_back({Work::backward, count - 1});
  return list;
}

TEST(Schedule, is_a_list_of_forwards_and_backwards) {
  EXPECT_EQ(text_of(in_order(3)), "f0b0f1b1f2b2");
  EXPECT_EQ(text_of(forwards_first(3)), "f0f1f2b2b1b0");
  EXPECT_EQ(text_of(instructions_of(two_under_way, 3)), "f0f1b0f2b1b2");
}

TEST(Schedule, runs_every_micro_batch_forward_and_then_backward_once) {
  using List = std::vector<Instruction>;
  const auto refused = [](const List& list) {
    EXPECT_ANY_THROW(instructions_of([&](int64_t) { return list; }, 2)) << text_of(list);
  };
  refused({});
  refused({{Work::forward, 0}, {Work::backward, 0}});
  refused({{Work::backward, 0}, {Work::forward, 0}, {Work::forward, 1}, {Work::backward, 1}});
  refused({{Work::forward, 0}, {Work::forward, 0}, {Work::backward, 0}, {Work::forward, 1}, {Work::backward, 1}});
  refused({{Work::forward, 0}, {Work::backward, 0}, {Work::forward, 2}, {Work::backward, 2}});
}

struct Scheduled {
  std::string text;
  RunConfig config;
};

std::vector<Scheduled> scheduled_runs() {
  RunConfig config;
  config.model.layers = 2, config.model.heads = 2, config.model.width = 32, config.model.context = 32;
  config.model.dropout = 0.1;
  config.train.batch = 12, config.train.length = 20, config.train.accumulate = 4;
  config.data.digits = 2;
  std::vector<Scheduled> list;
  for (int64_t zero = 0; zero < 4; ++zero)
    for (const auto recompute : {nn::Recompute::none, nn::Recompute::blocks}) {
      list.push_back({"zero " + std::to_string(zero) + ", recompute " + base::word_of(recompute), config});
      list.back().config.parallel.zero = zero, list.back().config.memory.recompute = recompute;
    }
  list.push_back({"bf16", config});
  list.back().config.train.precision = Precision::bf16;
  list.push_back({"fp8", config});
  list.back().config.train.precision = Precision::fp8, list.back().config.fp8.measure = false;
  list.push_back({"mixture of experts", config});
  list.back().config.model = {}, list.back().config.model.preset = "mixtral-tiny";
  list.push_back({"activations offloaded", config});
  list.back().config.memory.offload_activations = true;
  return list;
}

// Loss, norm, and after the first update all that it left: the first moment is the gradient.
std::vector<at::Tensor> stepped(const RunConfig& config, const Schedule& schedule) {
  const auto split = open_split(config, {});
  auto model = models::make_model(models::config_json(config.model), "test");
  model->initialise(config.train.seed);
  Stepper stepper(*model, config, at::kCPU);
  int64_t asked = 0;
  stepper.follow([&](int64_t count) {
    asked = count;
    return schedule(count);
  });
  Feed feed(split, config, {});
  std::vector<at::Tensor> list;
  const auto timer = profile::make_step_timer(false);
  const auto result = stepper.run(feed.next(), 1, 1e-3, *timer);
  EXPECT_EQ(asked, config.train.accumulate);
  list = {result.loss, result.grad_norm};
  for (const auto& item : stepper.state())
    if (item.name.starts_with("optimizer.first.")) list.push_back(item.tensor.detach().clone());
  return list;
}

TEST(Schedule, of_any_kind_gives_the_gradients_of_one_in_order) {
  for (const auto& [text, config] : scheduled_runs()) {
    SCOPED_TRACE(text);
    const auto expected = stepped(config, in_order);
    ASSERT_GT(expected.size(), 10U);
    for (const Schedule& same_sums : {Schedule(in_two_rounds), Schedule(two_under_way)}) {
      const auto found = stepped(config, same_sums);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
    }
    const auto other_way_round = stepped(config, forwards_first);
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_LT(testing::relative_error(other_way_round[i], expected[i]), 1e-6) << i;
  }
}

}  // namespace
}  // namespace hyperion::train
