#include "hyperion/train/feed.h"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/words.h"
#include "hyperion/data/images.h"
#include "hyperion/data/token_samples.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/stepper.h"
#include "tests/base/support_child.h"
#include "tests/support/devices.h"
#include "tests/support/seed.h"

namespace hyperion::train {
namespace {

using base::test::TestFolder;

constexpr int64_t kVocabulary = 97;

data::Split packed(const base::Path& folder, data::Packing packing, int64_t length, bool masked, int longest = 30) {
  std::mt19937 random(hyperion::testing::seed());
  const auto make = [&](const char* name, int count) {
    data::TokenWriter writer(base::real_files(), folder / name, 2, {});
    for (int i = 0; i < count; ++i) {
      std::vector<int32_t> ids(2 + random() % longest);
      std::vector<uint8_t> learned;
      for (auto& id : ids) id = static_cast<int32_t>(random() % kVocabulary);
      if (masked)
        for (size_t j = 0; j < ids.size(); ++j) learned.push_back(random() % 3 == 0);
      writer.add(ids, learned);
    }
    writer.finish(kVocabulary, 0, nlohmann::json::object());
    return data::make_token_source(std::make_shared<const data::TokenSet>(folder / name), packing, length);
  };
  data::Split split;
  split.train = make("train.set", 200);
  split.validation = make("validation.set", 20);
  return split;
}

RunConfig small(int64_t batch, int64_t length, const char* preset = "gpt2-tiny") {
  RunConfig config;
  config.train.batch = batch, config.train.length = length, config.train.device = device::DeviceChoice::cpu;
  config.model.preset = preset;
  config.model.width = 32, config.model.layers = 2, config.model.heads = 2,
  config.model.key_value_heads = preset[0] == 'l' ? 2 : 0, config.model.vocabulary = kVocabulary;
  config.model.context = length;
  return config;
}

TEST(Feed, gives_the_same_batches_whatever_the_number_of_threads) {
  TestFolder folder;
  const auto split = packed(folder.path(), data::Packing::whole, 16, true);
  RunConfig config = small(12, 16);
  for (const int64_t threads : {1, 2, 5}) {
    config.data.threads = threads;
    Feed feed(split, config, {});
    for (int64_t i = 0; i < 40; ++i) {
      const Batch batch = feed.next(), plain = batch_at(split, config, i * 12);
      ASSERT_TRUE(batch.inputs.equal(plain.inputs) && batch.targets.equal(plain.targets));
      ASSERT_EQ(batch.hash, plain.hash);
      ASSERT_EQ(batch.counted, plain.counted);
    }
    EXPECT_EQ(feed.cursor().samples, 480);
  }
}

TEST(Feed, a_stop_on_some_processes_goes_on_with_others_and_misses_no_sample) {
  TestFolder folder;
  const auto split = packed(folder.path(), data::Packing::stream, 8, false);
  const RunConfig config = small(24, 8);
  Feed alone(split, config, {});
  std::vector<uint64_t> hashes;
  for (int i = 0; i < 60; ++i) alone.next(), hashes.push_back(alone.cursor().hash);

  std::mt19937 random(hyperion::testing::seed());
  data::Cursor cursor;  // what a checkpoint would hold
  while (cursor.samples < int64_t{60} * 24) {
    const int64_t ranks = std::vector<int64_t>{1, 2, 3, 4, 6, 8}[random() % 6];
    const auto steps = std::min<int64_t>(1 + random() % 9, 60 - cursor.samples / 24);
    std::vector<std::unique_ptr<Feed>> feeds;
    for (int64_t rank = 0; rank < ranks; ++rank)  // the hash is kept once
      feeds.push_back(std::make_unique<Feed>(split, config, data::Cursor{cursor.samples, rank == 0 ? cursor.hash : 0},
                                             DataShard{rank, ranks}));
    for (int64_t step = 0; step < steps; ++step) {
      uint64_t sum = 0;
      for (auto& feed : feeds) {
        EXPECT_EQ(feed->next().rows(), 24 / ranks);
        sum += feed->cursor().hash;
      }
      EXPECT_EQ(sum, hashes[feeds[0]->cursor().samples / 24 - 1]) << ranks << " processes";
      cursor = {feeds[0]->cursor().samples, sum};
    }
  }
}

class Spots final : public data::ImageSource {
 public:
  int64_t samples() const override { return 39; }
  images::ImageShape shape() const override { return {3, 6, 8}; }
  int64_t classes() const override { return 7; }
  int64_t read(int64_t index, int64_t epoch, std::span<float> out) const override {
    std::mt19937 random(static_cast<unsigned>(100 * index + epoch));
    for (float& pixel : out) pixel = static_cast<float>(random() % 1000) / 500 - 1;
    return index % 7;
  }
};

// Every part that is computed alone must be the same rows of the whole batch, whoever computes it.
TEST(Feed, mixes_images_alike_whatever_shares_the_batch) {
  data::Split split;
  split.train_images = std::make_unique<Spots>();
  RunConfig config = small(0, 16);
  config.train.epochs = 1;  // the last batch has what is left
  for (const double cutmix : {0.0, 1.0})
    for (const int64_t rows : {3, 6, 7, 8, 9, 12})
      for (const int64_t ranks : {1, 2, 3})
        for (int64_t rank = 0; rank < ranks; ++rank) {
          config.train.batch = rows;
          config.data.augment.mixup = 0.8, config.data.augment.cutmix = cutmix;
          RunConfig unmixed = config;
          unmixed.data.augment = {};
          Feed feed(split, config, {}, {rank, ranks});
          for (int64_t position = 0; position < 39; position += rows) {
            SCOPED_TRACE(base::format("{} rows at {}, process {} of {}", rows, position, rank, ranks));
            const Batch share = feed.next(), whole = batch_at(split, config, position);
            EXPECT_EQ(share.hash, batch_at(split, unmixed, position, {rank, ranks}).hash);
            for (const int64_t parts : {1, 2})
              for (int64_t part = 0; part < std::min(parts, share.rows()); ++part) {
                const Batch here = share.part(part, parts), there = whole.part(part * ranks + rank, parts * ranks);
                EXPECT_TRUE(here.inputs.equal(there.inputs) && here.targets.equal(there.targets));
              }
            if (cutmix > 0) continue;  // its box may be empty
            const Batch before = batch_at(split, unmixed, position);
            for (int64_t row = 0; row < whole.rows(); ++row)
              EXPECT_FALSE(whole.inputs[row].equal(before.inputs[row])) << row;
          }
        }
}

TEST(Feed, mixes_a_batch_of_one_image_with_the_one_beside_it) {
  data::Split split;
  split.train_images = std::make_unique<Spots>();
  RunConfig config = small(1, 16), unmixed = config;
  config.data.augment.mixup = 0.8;
  for (int64_t position = 0; position < 4; ++position) {
    const auto image = [&](const RunConfig& how, int64_t at) { return batch_at(split, how, at).inputs; };
    const auto own = image(unmixed, position), other = image(unmixed, position ^ 1), mixed = image(config, position);
    EXPECT_FALSE(mixed.equal(own));
    const auto part = mixed.sub(other).sum().div(own.sub(other).sum());
    EXPECT_TRUE(mixed.allclose(own.mul(part).add(other.mul(part.neg().add(1))), 1e-3, 1e-3));
  }
}

class Failing final : public data::Source {
  int64_t samples() const override { return 1000; }
  void read(int64_t index, const data::TokenRow& row) const override {
    if (index == 500) throw base::CorruptError("sample 500 cannot be read");
    std::fill(row.tokens.begin(), row.tokens.end(), 1);
  }
};

TEST(Feed, what_reading_threw_comes_out_where_its_batch_would) {
  data::Split split;
  split.train = std::make_unique<Failing>();
  const RunConfig config = small(10, 4);
  Feed feed(split, config, {});
  int64_t batches = 0;
  EXPECT_THROW(
      {
        for (; batches < 100; ++batches) feed.next();
      },
      base::CorruptError);
  const auto order = split.order(config.train.seed);
  bool found = false;
  for (int64_t i = 0; i < 10; ++i) found |= order.at(batches * 10 + i).index == 500;
  EXPECT_TRUE(found) << "after " << batches << " batches";
}

// Packed documents must give what each gives alone.
TEST(Packed, documents_do_not_see_each_other) {
  TestFolder folder;
  const int64_t length = 40;
  const auto split = packed(folder.path(), data::Packing::whole, length, false, 15);
  for (const char* preset : {"gpt2-tiny", "llama-tiny"}) {
    RunConfig config = small(3, length, preset);
    config.data.reset = true;
    const auto model = models::make_model(models::config_json(config.model), "test");
    model->initialise(5);
    at::NoGradGuard no_grad;
    const Batch batch = batch_at(split, config, 0);
    for (const bool reference : {false, true}) {
      nn::Pass pass;
      pass.reference = reference;
      batch.apply_to(pass);
      const auto logits = model->logits(batch.inputs, pass);
      int checked = 0;
      for (int64_t row = 0; row < 3; ++row)
        for (int64_t first = 0, last = batch.lengths[row].item<int64_t>(); first < last;) {
          int64_t end = first + 1;
          const auto start = [&](int64_t at) { return batch.segment_starts[row][at].item<int64_t>(); };
          while (end < last && start(end) == first) ++end;
          EXPECT_EQ(start(first), first);
          nn::Pass own;
          const auto alone = model->logits(batch.inputs.narrow(0, row, 1).narrow(1, first, end - first), own);
          const auto here = logits.narrow(0, row, 1).narrow(1, first, end - first);
          EXPECT_LT(here.sub(alone).abs().max().item<double>(), 1e-5) << preset;
          EXPECT_TRUE(end == length || batch.targets[row][end - 1].item<int64_t>() == -100);
          first = end, ++checked;
        }
      EXPECT_GT(checked, 6);
    }
  }
}

// Other tokens in one document: what the model says of every other stays, to the bit.
TEST(Packed, a_document_changes_nothing_of_another) {
  TestFolder folder;
  const int64_t length = 40;
  const auto split = packed(folder.path(), data::Packing::whole, length, false, 15);
  for (const char* preset : {"gpt2-tiny", "llama-tiny"})
    for (const bool reference : {false, true}) {
      RunConfig config = small(2, length, preset);
      config.data.reset = true;
      const auto model = models::make_model(models::config_json(config.model), "test");
      model->initialise(5);
      at::NoGradGuard no_grad;
      const Batch batch = batch_at(split, config, 0);
      const auto logits_of = [&](const at::Tensor& inputs) {
        nn::Pass pass;
        pass.reference = reference;
        batch.apply_to(pass);
        return model->logits(inputs, pass);
      };
      const auto before = logits_of(batch.inputs);
      for (int64_t row = 0; row < 2; ++row)
        for (int64_t first = 0; first < length;) {
          const auto own = batch.segment_starts[row].eq(first);
          auto inputs = batch.inputs.clone();
          inputs[row].masked_fill_(own, (inputs[row][first].item<int64_t>() + 1) % kVocabulary);
          const auto change = logits_of(inputs).sub(before).abs().amax(-1);  // [rows, length]
          EXPECT_EQ(change[1 - row].max().item<double>(), 0) << preset;
          EXPECT_EQ(change[row].masked_fill(own, 0).max().item<double>(), 0) << preset << " at " << first;
          EXPECT_GT(change[row].masked_select(own).min().item<double>(), 0) << preset << " at " << first;
          first += own.sum().item<int64_t>();
        }
    }
}

class Padding : public testing::OnDevice {};

// Routers' losses and the experts' capacity count tokens.
TEST_P(Padding, changes_nothing_of_what_a_mixture_learns) {
  TestFolder folder;
  for (const auto mode : {Optimize::reference, GetParam().is_cuda() ? Optimize::graph : Optimize::fused})
    for (const double capacity : {0.0, 0.7}) {
      SCOPED_TRACE(base::format("{}, capacity {}", base::word_of(mode), capacity));
      std::vector<std::vector<double>> losses;
      for (const int64_t length : {24, 41}) {
        const auto split = packed(folder.path(), data::Packing::single, length, true, 20);
        RunConfig config;
        config.train.batch = 6, config.train.length = length, config.train.optimize = mode;
        if (GetParam().is_cuda()) config.train.precision = Precision::bf16;
        config.model.preset = "mixtral-tiny", config.model.vocabulary = kVocabulary, config.model.width = 32,
        config.model.layers = 2;
        config.model.balance_loss = 1, config.model.router_z_loss = 0.1, config.model.capacity = capacity;
        const auto model = models::make_model(models::config_json(config.model), "test");
        model->initialise(5);
        Stepper stepper(*model, config, GetParam());
        const auto timer = profile::make_step_timer(false);
        losses.emplace_back();
        for (int64_t step = 1; step <= 6; ++step)
          losses.back().push_back(
              stepper.run(batch_at(split, config, step * 6), step, GetParam().is_cuda() ? 0 : 1e-3, *timer)
                  .loss.item<double>());
        EXPECT_EQ(stepper.records(), mode == Optimize::graph);
      }
      for (size_t i = 1; i < losses.size(); ++i)
        for (size_t step = 0; step < losses[i].size(); ++step)
          EXPECT_NEAR(losses[i][step], losses[0][step], GetParam().is_cuda() ? 2e-2 : 1e-5) << step;
    }
}

TEST_P(Padding, is_no_document_that_dynamic_positions_stretch_for) {
  TestFolder folder;
  const auto text = R"({"model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
      "intermediate_size": 64, "vocab_size": 97, "max_position_embeddings": 8,
      "rope_scaling": {"rope_type": "dynamic", "factor": 8.0}})";
  const auto model = models::make_model(text, "test");
  model->initialise(5);
  for (const auto& parameter : model->parameters()) parameter.tensor.set_data(parameter.tensor.to(GetParam()));
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> logits;
  for (const auto& [length, reset] : {std::pair{12, true}, std::pair{30, true}, std::pair{12, false},
                                      std::pair{30, false}, std::pair{60, false}, std::pair{60, true}}) {
    const auto split = packed(folder.path(), data::Packing::single, length, false, 6);
    RunConfig config;
    config.train.batch = 3, config.train.length = length, config.data.reset = reset;
    const Batch batch = to_device(batch_at(split, config, 0), GetParam(), at::kFloat);
    nn::Pass pass;
    batch.apply_to(pass);
    const auto counts = batch.targets.narrow(1, 0, 8).ge(0).unsqueeze(2);
    logits.push_back(model->logits(batch.inputs, pass).narrow(1, 0, 8).mul(counts));
  }
  for (size_t i = 1; i < logits.size(); ++i)
    EXPECT_LT(logits[i].sub(logits[0]).abs().max().item<double>(), GetParam().is_cuda() ? 1e-3 : 1e-5);
}

INSTANTIATE_TEST_SUITE_P(, Padding, ::testing::ValuesIn(testing::devices()), testing::device_name);

// Long prompts leave whole rows of a stream without a token that the loss counts.
TEST(Counted, rows_of_a_stream_are_samples_and_none_is_no_loss_of_zero) {
  TestFolder folder;
  data::TokenWriter writer(base::real_files(), folder.path() / "long.set", 2, {});
  for (int i = 0; i < 6; ++i) {
    std::vector<int32_t> ids(50, 3);
    std::vector<uint8_t> learned(50, 0);
    learned[49] = i < 4;
    writer.add(ids, learned);
  }
  writer.finish(kVocabulary, 0, nlohmann::json::object());
  const auto set = std::make_shared<const data::TokenSet>(folder.path() / "long.set");
  const auto source = data::make_token_source(set, data::Packing::stream, 10);
  EXPECT_EQ(source->samples(), 4);
  EXPECT_EQ(source->cut().unlearned, 29 - 4);
  data::Split split;
  split.train = data::make_token_source(set, data::Packing::stream, 10);
  split.validation = data::make_token_source(set, data::Packing::stream, 10);
  RunConfig config = small(2, 10);
  EXPECT_NO_THROW(check_counted(split, config));
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(validation_batch(split, i, 1, config).counted_in_all(), 1) << i;
  // Documents of one token, each its own: nothing is left to predict.
  data::TokenWriter single(base::real_files(), folder.path() / "single.set", 2, {});
  for (int i = 0; i < 60; ++i) single.add(std::vector<int32_t>{3}, {});
  single.finish(kVocabulary, 0, nlohmann::json::object());
  const auto lone = std::make_shared<const data::TokenSet>(folder.path() / "single.set");
  split.validation = data::make_token_source(lone, data::Packing::stream, 10);
  EXPECT_NO_THROW(check_counted(split, config));
  config.data.reset = true;
  EXPECT_THROW(check_counted(split, config), base::ConfigError);
  config.eval.every = 0;  // the last step is validated all the same
  EXPECT_THROW(check_counted(split, config), base::ConfigError);
  split.validation = data::make_token_source(set, data::Packing::stream, 10);
  EXPECT_NO_THROW(check_counted(split, config));
  split.train = data::make_token_source(lone, data::Packing::stream, 10);
  EXPECT_THROW(check_counted(split, config), base::ConfigError);
}

TEST(Masked, parts_with_unequal_numbers_of_targets_add_up_to_the_batch) {
  TestFolder folder;
  const auto split = packed(folder.path(), data::Packing::single, 20, true);
  RunConfig config = small(12, 20);
  std::vector<double> losses, norms;
  for (const int64_t parts : {1, 2, 3, 4, 12}) {
    config.train.accumulate = parts;
    const auto model = models::make_model(models::config_json(config.model), "test");
    model->initialise(5);
    Stepper stepper(*model, config, at::kCPU);
    const auto timer = profile::make_step_timer(false);
    const auto done = stepper.run(batch_at(split, config, 0), 1, 1e-3, *timer);
    losses.push_back(done.loss.item<double>()), norms.push_back(done.grad_norm.item<double>());
  }
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], losses[0], 1e-5);
    EXPECT_NEAR(norms[i], norms[0], 1e-4 * norms[0]);
  }
}

}  // namespace
}  // namespace hyperion::train
