#include "hyperion/train/stepper.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/device/device.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/feed.h"
#include "tests/support/devices.h"
#include "tests/support/documents.h"

namespace hyperion::train {
namespace {

using testing::OnDevice;
using testing::relative_error;

RunConfig small_run() {
  RunConfig config;
  config.model.layers = 2, config.model.heads = 2, config.model.width = 32, config.model.context = 32;
  config.train.batch = 8, config.train.length = 20;
  config.data.digits = 2;
  return config;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<at::Tensor> weights;
  int skipped = 0;
  bool recorded = false;
  StepperNumbers numbers;
};

// A model, its step and its data.
class Engine {
 public:
  Engine(const RunConfig& config, at::Device device)
      : config_(config),
        split_(config_.data.reset ? testing::split_of_documents(config_.train.length, 256) : open_split(config_, {})),
        model_(models::make_model(models::config_json(config_.model), "test")) {
    model_->initialise(config_.train.seed);
    if (config_.model.quantize == models::Quantize::nf4) model_->quantize();
    if (config_.lora.rank > 0) model_->adapters().add("test", nn::config_of(config_.lora), config_.train.seed);
    stepper_.emplace(*model_, config_, device);
    feed_.emplace(split_, config_, data::Cursor{});
  }
  void step(int64_t number) {
    const auto timer = profile::make_step_timer(false);
    auto done = stepper_->run(feed_->next(), number, 1e-2, *timer);
    done.decide();
    result_.losses.push_back(done.loss.item<double>());
    result_.norms.push_back(done.grad_norm.item<double>());
    result_.skipped += done.skipped;
  }
  Trained result() {
    result_.recorded = stepper_->records();
    result_.numbers = stepper_->numbers();
    for (const auto& item : stepper_->state()) result_.weights.push_back(item.tensor.detach().to(at::kCPU).clone());
    return result_;
  }

 private:
  RunConfig config_;
  data::Split split_;
  std::unique_ptr<models::Model> model_;
  std::optional<Stepper> stepper_;
  std::optional<Feed> feed_;
  Trained result_;
};

Trained trained(const RunConfig& config, at::Device device, int64_t steps) {
  Engine engine(config, device);
  for (int64_t step = 1; step <= steps; ++step) engine.step(step);
  return engine.result();
}

struct Deterministic {
  Deterministic() { device::use_deterministic_algorithms(); }
  ~Deterministic() {
    at::globalContext().setDeterministicAlgorithms(false, false);
    at::globalContext().setDeterministicCuDNN(false);
  }
  Deterministic(const Deterministic&) = delete;
  Deterministic& operator=(const Deterministic&) = delete;
};

// On a CPU too.
struct FusedBlocks {
  FusedBlocks() { ::setenv("HYPERION_FUSED_BLOCKS", "1", 1); }
  ~FusedBlocks() { ::unsetenv("HYPERION_FUSED_BLOCKS"); }
  FusedBlocks(const FusedBlocks&) = delete;
  FusedBlocks& operator=(const FusedBlocks&) = delete;
};

void expect_same_bits(const Trained& one, const Trained& other) {
  EXPECT_EQ(one.losses, other.losses);
  ASSERT_EQ(one.weights.size(), other.weights.size());
  for (size_t i = 0; i < one.weights.size(); ++i) EXPECT_TRUE(one.weights[i].equal(other.weights[i])) << i;
}

class Step : public OnDevice {};

TEST_P(Step, learns) {
  const auto result = trained(small_run(), GetParam(), 60);
  EXPECT_NEAR(result.losses.front(), std::log(256.0), 0.2);
  EXPECT_LT(result.losses.back(), 2.6);
}

TEST_P(Step, parts_of_a_batch_add_up_to_the_batch) {
  auto config = small_run();
  config.train.precision = Precision::fp32;
  const auto whole = trained(config, GetParam(), 1);
  config.train.accumulate = 4;
  const auto parts = trained(config, GetParam(), 1);
  EXPECT_NEAR(whole.losses[0], parts.losses[0], 1e-5);
  EXPECT_NEAR(whole.norms[0], parts.norms[0], 1e-4 * whole.norms[0]);
}

TEST_P(Step, bf16_follows_fp32_and_its_weights_are_rounded_masters) {
  auto config = small_run();
  const auto wide = trained(config, GetParam(), 5);
  config.train.precision = Precision::bf16;
  const auto narrow = trained(config, GetParam(), 5);
  for (size_t i = 0; i < wide.losses.size(); ++i) EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.03 * wide.losses[i]);

  auto model = models::make_model(models::config_json(config.model), "test");
  model->initialise(1);
  Stepper stepper(*model, config, GetParam());
  std::map<std::string, at::Tensor> state;
  for (const auto& item : stepper.state()) state[item.name] = item.tensor;
  for (const auto& parameter : model->parameters()) {
    const auto& weight = state.at("model." + parameter.name);
    EXPECT_EQ(weight.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(weight.equal(state.at("optimizer.master." + parameter.name).to(at::kBFloat16))) << parameter.name;
  }
}

TEST_P(Step, fp16_follows_fp32_once_its_scale_has_come_down) {
  auto config = small_run();
  const auto wide = trained(config, GetParam(), 12);
  config.train.precision = Precision::fp16;
  const auto narrow = trained(config, GetParam(), 12);
  EXPECT_EQ(narrow.skipped, 0);
  for (size_t i = 0; i < wide.losses.size(); ++i) EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.02 * wide.losses[i]);
  config.train.loss_scale = 0x1p24;
  const auto late = trained(config, GetParam(), 24);
  EXPECT_GT(late.skipped, 3) << "a scale this large must overflow";
  for (size_t i = 1; i < static_cast<size_t>(late.skipped); ++i) EXPECT_FALSE(std::isfinite(late.norms[i]));
  EXPECT_LT(late.losses.back(), wide.losses[6]) << "it learns after it has backed off";
}

TEST_P(Step, fp8_follows_bf16_and_keeps_what_its_scales_come_from) {
  auto config = small_run();
  config.train.precision = Precision::bf16;
  const auto wide = trained(config, GetParam(), 12);
  config.train.precision = Precision::fp8;
  config.fp8.measure = false;  // so small a model would stay in bf16
  using blocks::Fp8Scale;
  for (const auto scale : {Fp8Scale::delayed, Fp8Scale::current, Fp8Scale::rows}) {
    config.fp8.options.scale = scale;
    const auto narrow = trained(config, GetParam(), 12);
    for (size_t i = 0; i < wide.losses.size(); ++i)
      EXPECT_NEAR(narrow.losses[i], wide.losses[i], 0.03 * wide.losses[i]) << base::word_of(scale);
    EXPECT_NE(narrow.losses.back(), wide.losses.back()) << "products were made in bf16";
  }
  auto model = models::make_model(models::config_json(config.model), "test");
  model->initialise(1);
  Stepper stepper(*model, config, GetParam());
  const auto state = stepper.state();
  EXPECT_EQ(std::count_if(state.begin(), state.end(), [](const auto& item) { return item.name == "fp8.history"; }), 1);
}

TEST_P(Step, a_skipped_step_changes_nothing) {
  auto config = small_run();
  config.train.precision = Precision::fp16;
  config.train.loss_scale = 0x1p40;
  const auto none = trained(config, GetParam(), 0), one = trained(config, GetParam(), 1);
  EXPECT_EQ(one.skipped, 1);
  for (size_t i = 0; i < none.weights.size(); ++i) EXPECT_TRUE(none.weights[i].equal(one.weights[i]));
}

TEST_P(Step, reference_and_fused_steps_agree) {
  auto config = small_run();
  config.model.dropout = 0.2;
  const auto fused = trained(config, GetParam(), 3);
  config.train.optimize = Optimize::reference;
  const auto plain = trained(config, GetParam(), 3);
  for (size_t i = 0; i < fused.losses.size(); ++i) EXPECT_NEAR(fused.losses[i], plain.losses[i], 1e-4);
}

TEST_P(Step, fp16_in_a_graph_skips_and_scales_as_it_does_outside) {
  for (const auto rule : {optim::UpdateRule::adamw, optim::UpdateRule::sgd}) {
    auto config = small_run();
    config.optim.rule = rule;
    config.train.precision = Precision::fp16;
    config.train.loss_scale = 0x1p24;
    const auto plain = trained(config, GetParam(), 20);
    config.train.optimize = Optimize::graph;
    const auto graph = trained(config, GetParam(), 20);
    EXPECT_EQ(graph.recorded, GetParam().is_cuda());
    EXPECT_GT(graph.skipped, 3);
    EXPECT_EQ(graph.skipped, plain.skipped);
    EXPECT_EQ(graph.numbers.updates, plain.numbers.updates);
    EXPECT_EQ(graph.numbers.loss_scale, plain.numbers.loss_scale);
    EXPECT_EQ(graph.numbers.good_steps, plain.numbers.good_steps);
    for (size_t i = 0; i < plain.losses.size(); ++i) EXPECT_NEAR(graph.losses[i], plain.losses[i], 1e-2) << i;
  }
}

TEST_P(Step, mixtures_of_experts_are_recorded_in_bf16) {
  if (!GetParam().is_cuda()) GTEST_SKIP() << "graphs are a GPU's";
  for (const std::string preset : {"mixtral-tiny", "qwen-moe-tiny"}) {
    SCOPED_TRACE(preset);
    auto config = small_run();
    config.model = {};
    config.model.preset = preset;
    config.train.precision = Precision::bf16;
    const auto plain = trained(config, GetParam(), 5);
    config.train.optimize = Optimize::graph;
    const auto graph = trained(config, GetParam(), 5);
    EXPECT_TRUE(graph.recorded);
    // A token near the border between two experts may go to either, by rounding.
    for (size_t i = 0; i < plain.losses.size(); ++i) EXPECT_NEAR(graph.losses[i], plain.losses[i], 0.05) << i;
  }
}

TEST_P(Step, a_recorded_step_drops_what_the_step_itself_does) {
  auto config = small_run();
  config.model.dropout = 0.3;
  config.train.accumulate = 2;
  const auto plain = trained(config, GetParam(), 8);
  config.train.optimize = Optimize::graph;
  const auto graph = trained(config, GetParam(), 8);
  EXPECT_EQ(graph.recorded, GetParam().is_cuda());
  for (size_t i = 0; i < plain.losses.size(); ++i) EXPECT_NEAR(graph.losses[i], plain.losses[i], 1e-3) << i;
}

TEST_P(Step, repeats_its_bits_where_it_is_told_to) {
  if (!GetParam().is_cuda()) GTEST_SKIP() << "a CPU's bits repeat anyhow";
  const Deterministic deterministic;
  for (const std::string preset : {"", "llama-tiny", "mixtral-tiny"})
    for (const auto mode : {Optimize::fused, Optimize::graph, Optimize::max}) {
      SCOPED_TRACE(preset + " " + base::word_of(mode));
      auto config = small_run();
      if (preset.empty()) {
        config.model.width = 128, config.model.context = 512;
        config.train.batch = 16, config.train.length = 500;  // many blocks of queries to a key
      } else {
        config.model = {};
        config.model.preset = preset;
      }
      config.train.precision = Precision::bf16, config.train.deterministic = true, config.train.optimize = mode;
      const auto once = trained(config, GetParam(), 6), twice = trained(config, GetParam(), 6);
      expect_same_bits(once, twice);
    }
}

// What is trained of a model, and whether documents share its rows.
struct FineTuning {
  const char* name;
  int64_t rank = 0;
  models::Quantize quantize = models::Quantize::none;
  bool documents = false;
};

TEST_P(Step, of_adapters_and_of_documents_that_share_rows_repeats_its_bits_and_is_that_of_plain_operations) {
  const FusedBlocks fused_blocks;
  std::optional<Deterministic> deterministic;
  if (GetParam().is_cuda()) deterministic.emplace();
  using models::Quantize;
  const bool gpu = GetParam().is_cuda();
  std::vector<Optimize> modes{Optimize::fused};
  if (gpu) modes.insert(modes.end(), {Optimize::graph, Optimize::max});
  for (const auto& tuning : {FineTuning{"adapters", 8}, FineTuning{"adapters in 4 bits", 8, Quantize::nf4},
                             FineTuning{"documents", 0, Quantize::none, true},
                             FineTuning{"both", 8, Quantize::none, true}, FineTuning{"all", 8, Quantize::nf4, true}})
    for (const auto mode : modes) {
      SCOPED_TRACE(base::format("{} {}", tuning.name, base::word_of(mode)));
      auto config = small_run();
      config.model = {}, config.model.preset = "llama-tiny", config.model.layers = 2, config.model.context = 256;
      config.model.quantize = tuning.quantize, config.lora.rank = tuning.rank, config.lora.dropout = 0.1;
      config.data.reset = tuning.documents;
      config.train.length = gpu ? 250 : 40, config.train.accumulate = 2;  // on a GPU many blocks of queries to a key
      config.train.precision = gpu ? Precision::bf16 : Precision::fp32, config.train.optimize = mode;
      config.train.deterministic = gpu;
      const auto once = trained(config, GetParam(), 6), twice = trained(config, GetParam(), 6);
      EXPECT_LT(once.losses.back(), once.losses.front());
      expect_same_bits(once, twice);
      config.train.optimize = Optimize::reference;
      const auto plain = trained(config, GetParam(), 6);
      EXPECT_TRUE(gpu || once.losses != plain.losses) << "blocks were not fused";
      for (size_t i = 0; i < plain.losses.size(); ++i)
        EXPECT_NEAR(once.losses[i], plain.losses[i], (gpu ? 2e-2 : 1e-5) * plain.losses[i]) << i;
    }
}

// What a step needs belongs to its own engine: another model with other settings beside it changes no bit.
TEST_P(Step, of_two_engines_in_turns_has_the_bits_of_each_alone) {
  std::optional<Deterministic> deterministic;
  if (GetParam().is_cuda()) deterministic.emplace();
  const auto other_run = [] {
    auto config = small_run();
    config.model = {};
    config.model.preset = "mixtral-tiny";
    config.train.batch = 6, config.train.accumulate = 2, config.train.seed = 9;
    return config;
  };
  for (const auto mode : {Optimize::fused, GetParam().is_cuda() ? Optimize::max : Optimize::reference}) {
    SCOPED_TRACE(base::word_of(mode));
    auto first = small_run(), second = other_run();
    first.model.dropout = 0.2, first.train.optimize = mode, first.memory.recompute = nn::Recompute::selective;
    first.train.precision = Precision::bf16,
    second.train.precision = GetParam().is_cuda() ? Precision::bf16 : Precision::fp32;
    first.train.deterministic = second.train.deterministic = GetParam().is_cuda();
    const auto alone = trained(first, GetParam(), 6), other_alone = trained(second, GetParam(), 6);
    Engine a(first, GetParam()), b(second, GetParam());
    for (int64_t step = 1; step <= 6; ++step) a.step(step), b.step(step);
    expect_same_bits(a.result(), alone);
    expect_same_bits(b.result(), other_alone);
  }
}

TEST_P(Step, sgd_learns_and_keeps_one_moment) {
  auto config = small_run();
  config.optim.rule = optim::UpdateRule::sgd;
  const auto result = trained(config, GetParam(), 30);
  EXPECT_LT(result.losses.back(), result.losses.front() - 0.5);
  EXPECT_EQ(result.weights.size() % 2, 0u);
}

INSTANTIATE_TEST_SUITE_P(Devices, Step, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::train
