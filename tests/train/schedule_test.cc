#include <gtest/gtest.h>

#include "hyperion/base/words.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/stepper.h"

namespace hyperion::train {
namespace {

using strategy::PipelineSchedule;

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
  using blocks::Fp8Scale;
  for (const auto scale : {Fp8Scale::delayed, Fp8Scale::current, Fp8Scale::rows}) {
    list.push_back({std::string("fp8, scales ") + base::word_of(scale), config});
    auto& fp8 = list.back().config;
    fp8.train.precision = Precision::fp8, fp8.train.length = 16;  // sides are multiples of 16
    fp8.fp8.measure = false, fp8.fp8.options.scale = scale;
  }
  list.push_back({"mixture of experts", config});
  list.back().config.model = {}, list.back().config.model.preset = "mixtral-tiny";
  list.push_back({"activations offloaded", config});
  list.back().config.memory.offload_activations = true;
  return list;
}

// Loss, norm, and after the first update all that it left: the first moment is the gradient.
std::vector<at::Tensor> stepped(RunConfig config, PipelineSchedule schedule) {
  config.parallel.schedule = schedule;
  const auto split = open_split(config, {});
  auto model = models::make_model(models::config_json(config.model), "test");
  model->initialise(config.train.seed);
  Stepper stepper(*model, config, at::kCPU);
  Feed feed(split, config, {});
  const auto timer = profile::make_step_timer(false);
  const auto result = stepper.run(feed.next(), 1, 1e-3, *timer);
  std::vector<at::Tensor> list = {result.loss, result.grad_norm};
  for (const auto& item : stepper.state())
    if (item.name.starts_with("optimizer.first.")) list.push_back(item.tensor.detach().clone());
  return list;
}

// One process alone is a pipeline of one: micro-batches may all go forward before any goes back.
TEST(Schedule, of_any_kind_gives_the_gradients_of_one_in_order) {
  for (const auto& [text, config] : scheduled_runs()) {
    SCOPED_TRACE(text);
    const auto expected = stepped(config, PipelineSchedule::one_forward_one_backward);
    ASSERT_GT(expected.size(), 10U);
    for (const auto schedule : {PipelineSchedule::gpipe, PipelineSchedule::interleaved}) {
      const auto found = stepped(config, schedule);
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
    }
  }
}

}  // namespace
}  // namespace hyperion::train
