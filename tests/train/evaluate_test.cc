#include "hyperion/train/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <thread>

#include "hyperion/comm/group.h"
#include "hyperion/comm/local_transport.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/feed.h"
#include "tests/support/devices.h"

namespace hyperion::train {
namespace {

class Evaluation : public testing::OnDevice {};

// 50 samples: of eight batches of 12 only four and two samples are there.
RunConfig of_tokens() {
  RunConfig config;
  config.model.layers = 2, config.model.heads = 2, config.model.width = 32, config.model.context = 32;
  config.train.batch = 12, config.train.length = 20;
  config.data.digits = 2, config.data.sums = 500, config.data.validation = 0.1;
  return config;
}

RunConfig of_images() {
  RunConfig config = of_tokens();
  config.model = {};
  config.model.preset = "vit-tiny", config.model.layers = 2, config.model.width = 32, config.model.heads = 2;
  config.model.inner = 64, config.model.image = 16;
  config.data.source = data::SourceKind::shapes, config.data.images = 500;
  return config;
}

struct Opened {
  explicit Opened(const RunConfig& config, at::Device device) {
    const std::string json = models::config_json(config.model);
    split = open_split(config, models::config_shape(json, "test", config.train.length));
    model = models::make_model(json, "test");
    model->initialise(1);
    model->to(device, at::kFloat);
  }
  data::Split split;
  std::unique_ptr<models::Model> model;
};

std::vector<report::EvalRecord> on_ranks(int ranks, const RunConfig& config, at::Device device) {
  std::vector<report::EvalRecord> records(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  auto transports = comm::make_local_transports(ranks);
  for (size_t rank = 0; rank < records.size(); ++rank)
    threads.emplace_back([&, rank] {
      device::set_cpu_threads(1);
      comm::Group group("test", std::move(transports[rank]));
      const EvalRanks among{group, nullptr, {group.rank(), group.size()}};
      const Opened opened(config, device);
      records[rank] = evaluate(*opened.model, device, opened.split, config, &among);
    });
  for (auto& thread : threads) thread.join();
  return records;
}

TEST_P(Evaluation, has_the_same_bits_for_any_number_of_parts_and_ranks) {
  RunConfig large = of_tokens();  // more rows a batch than one forward takes
  large.train.batch = 480, large.data.sums = 9000;
  for (RunConfig config : {of_tokens(), of_images(), large}) {
    const auto alone = on_ranks(1, config, GetParam()).front();
    for (const auto& [ranks, accumulate] : {std::pair{1, 2}, {1, 4}, {2, 1}, {2, 2}, {3, 1}, {4, 2}, {7, 1}}) {
      config.train.accumulate = accumulate;
      for (const auto& record : on_ranks(ranks, config, GetParam())) {
        EXPECT_EQ(record.loss, alone.loss) << ranks << " ranks, " << accumulate << " parts";
        EXPECT_EQ(record.token_accuracy, alone.token_accuracy);
        EXPECT_EQ(record.top_1, alone.top_1);
        EXPECT_EQ(record.top_5, alone.top_5);
      }
    }
  }
}

TEST_P(Evaluation, is_the_mean_over_every_target_of_the_samples_asked_for) {
  for (RunConfig config : {of_tokens(), of_images()}) {
    const Opened opened(config, GetParam());
    for (const int64_t batches : {2, 8}) {
      config.eval.batches = batches;
      const auto found = evaluate(*opened.model, GetParam(), opened.split, config);
      const int64_t samples = std::min<int64_t>(50, batches * config.train.batch);
      double loss = 0, right = 0, count = 0;
      for (int64_t sample = 0; sample < samples; ++sample) {  // one by one
        const at::NoGradGuard no_grad;
        const auto row = to_device(validation_batch(opened.split, sample, 1, config), GetParam(), at::kFloat);
        nn::Pass pass;
        const auto logits = opened.model->logits(row.inputs, pass);
        const auto here = static_cast<double>(row.targets.numel());
        loss += kernels::cross_entropy_reference(logits, row.targets).item<double>() * here;
        right += logits.argmax(-1).eq(row.targets).sum().item<double>();
        count += here;
      }
      EXPECT_NEAR(found.loss, loss / count, 1e-5);
      EXPECT_NEAR(found.token_accuracy.value_or(found.top_1.value_or(-1)), right / count, 0.011);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Evaluation, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::train
