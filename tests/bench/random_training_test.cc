#include "hyperion/bench/random_training.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/models/model.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/stepper.h"

namespace hyperion::bench {
namespace {

// By hand: 33,664 weights that a token is multiplied with, and 3,072 operations of attention (account_test.cc); an
// adapter of rank 4 beside all linear layers holds 4,096.
TEST(RandomTraining, counts_no_gradients_of_weights_that_an_adapter_freezes) {
  train::RunConfig config;
  config.model.layers = 2, config.model.heads = 2, config.model.width = 32, config.model.context = 48;
  config.train.batch = 2, config.train.length = 24;
  EXPECT_EQ(work_of_step(config).flops, 48.0 * 3 * (2 * 33664 + 3072));
  config.lora.rank = 4;
  EXPECT_EQ(work_of_step(config).flops, 48.0 * (2 * 2 * 33664 + 3 * 3072 + 6 * 4096));
  EXPECT_EQ(RandomTraining(config, at::kCPU).shape().trained, 4096);
  EXPECT_EQ(random_shape(config).trained, 4096);
}

train::RunConfig packing(int64_t rows, int64_t length) {
  train::RunConfig config;
  config.data.packing = data::Packing::whole, config.data.reset = true;
  config.train.batch = rows, config.train.length = length;
  return config;
}

TEST(RandomTraining, documents_are_of_the_lengths_that_people_have) {
  const auto config = packing(64, 2048);
  double documents = 0, sum = 0, squares = 0, unused = 0;
  const int64_t batches = random_batches(config);
  ASSERT_EQ(batches, 16);
  for (int64_t i = 0; i < batches; ++i) {
    const auto rows = document_lengths(random_batch(config, random_shape(config), 0, i));
    ASSERT_EQ(rows.size(), 64u);
    for (const auto& row : rows) {
      double in_row = 0;
      for (const auto tokens : row) {
        const auto number = static_cast<double>(tokens);
        documents += 1, sum += number, squares += number * number, in_row += number;
      }
      unused += 2048 - in_row;
    }
  }
  const double mean = sum / documents;
  EXPECT_NEAR(mean, 300, 30);
  EXPECT_NEAR(std::sqrt(squares / documents - mean * mean), 200, 40);
  EXPECT_GT(unused, 0);
  EXPECT_LT(unused / static_cast<double>(batches * 64 * 2048), 0.01);  // they are fitted, as a run does it
  EXPECT_NEAR(work_of_step(config).tokens, sum / static_cast<double>(batches), 1e-6);
}

// A batch has rows of long documents and rows of short ones, as they come out of a shuffled set, and each row once.
TEST(RandomTraining, batches_of_documents_are_random_draws_of_rows) {
  const auto config = packing(4, 2048);
  std::set<std::vector<int64_t>> seen;
  std::vector<double> longest;
  for (int64_t i = 0; i < random_batches(config); ++i) {
    int64_t most = 0;
    for (const auto& row : document_lengths(random_batch(config, random_shape(config), 0, i))) {
      EXPECT_TRUE(seen.insert(row).second) << "a row of batch " << i << " was there before";
      most = std::max(most, *std::max_element(row.begin(), row.end()));
    }
    longest.push_back(static_cast<double>(most));
  }
  std::sort(longest.begin(), longest.end());
  EXPECT_GT(longest.back(), 1.5 * longest.front());
  EXPECT_GT(longest[longest.size() / 2], 500);
  EXPECT_EQ(random_batches({}), 3);  // of rows of one length one would do
}

// As train/feed.cc gives them: no target leads from one document into the next, or into padding.
TEST(RandomTraining, rows_of_documents_are_a_real_feeds) {
  const auto config = packing(4, 64);
  const auto batch = random_batch(config, random_shape(config), 10);
  const auto documents = document_lengths(batch);
  ASSERT_TRUE(batch.segment_starts.defined() && batch.lengths.defined());
  EXPECT_EQ(batch.inputs.max().item<int64_t>(), 9);
  for (int64_t row = 0; row < 4; ++row) {
    const auto targets = batch.targets[row], starts = batch.segment_starts[row], inputs = batch.inputs[row];
    int64_t at = 0, counted = 0;
    for (const int64_t tokens : documents[static_cast<size_t>(row)]) {
      for (int64_t i = at; i < at + tokens; ++i) {
        EXPECT_EQ(starts[i].item<int>(), at);
        const auto target = targets[i].item<int64_t>();
        counted += target >= 0;
        if (i + 1 < at + tokens) {
          EXPECT_EQ(target, inputs[i + 1].item<int64_t>());
        } else if (at + tokens < 64) {
          EXPECT_EQ(target, -100);
        }
      }
      at += tokens;
    }
    EXPECT_EQ(batch.lengths[row].item<int>(), at);
    EXPECT_EQ(batch.counted[static_cast<size_t>(row)], counted);
    EXPECT_EQ(targets.slice(0, at).ne(-100).sum().item<int64_t>(), 0);
  }
  const auto again = random_batch(config, random_shape(config), 10),
             other = random_batch(config, random_shape(config), 10, 1);
  EXPECT_TRUE(batch.inputs.equal(again.inputs));
  EXPECT_FALSE(batch.segment_starts.equal(other.segment_starts));
}

// Attention's operations are those within documents: of rows full of one document each as many as without.
TEST(RandomTraining, counts_attention_within_documents) {
  auto config = packing(2, 24);
  config.model.layers = 2, config.model.heads = 2, config.model.width = 32, config.model.context = 48;
  const auto work = work_of_step(config);
  EXPECT_LE(work.tokens, 48);
  EXPECT_GT(work.flops, work.tokens * 3 * 2 * 33664);
  EXPECT_LT(work.flops, work.tokens * 3 * (2 * 33664 + 3072));
}

TEST(RandomTraining, is_of_the_model_that_the_recipe_goes_on_from) {
  train::RunConfig config;
  config.model.from = "no-such-folder";
  EXPECT_THROW(RandomTraining(config, at::kCPU), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::bench
