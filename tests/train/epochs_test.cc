#include "hyperion/train/epochs.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"
#include "hyperion/train/feed.h"

namespace hyperion::train {
namespace {

struct Sums {
  Sums(int64_t samples, int64_t epochs, int64_t batch) {
    config.data.sums = samples, config.data.digits = 1;
    config.train.epochs = epochs, config.train.batch = batch, config.train.length = 24;
    config.optim.warmup = 0;
  }
  data::Split split() const { return open_split(config, {}); }
  RunConfig config;
};

TEST(Epochs, are_as_many_steps_as_see_each_sample_so_often) {
  Sums sums(10, 3, 4);
  EXPECT_EQ(settle_epochs(sums.config, sums.split(), 1), "");
  EXPECT_EQ(sums.config.train.steps, 8);
  EXPECT_EQ(epochs_text(sums.config, sums.split()), "10 samples an epoch; 3 epochs are 8 steps");
  sums.config.train.epochs = 0;
  EXPECT_EQ(epochs_text(sums.config, sums.split()), "10 samples an epoch; 8 steps are 3.2 epochs");
}

TEST(Epochs, the_last_batch_has_what_is_left_and_no_other_comes) {
  Sums sums(10, 3, 4);
  const auto split = sums.split();
  settle_epochs(sums.config, split, 1);
  Feed feed(split, sums.config, {});
  std::vector<int64_t> rows;
  for (int64_t step = 0; step < sums.config.train.steps; ++step) rows.push_back(feed.next().rows());
  EXPECT_EQ(rows, (std::vector<int64_t>{4, 4, 4, 4, 4, 4, 4, 2}));
  EXPECT_EQ(feed.cursor().samples, 30);
}

TEST(Epochs, two_processes_see_the_samples_of_one) {
  Sums sums(10, 3, 4);
  const auto split = sums.split();
  settle_epochs(sums.config, split, 2);
  uint64_t hash = 0;
  for (int64_t rank = 0; rank < 2; ++rank) {
    Feed feed(split, sums.config, {}, {rank, 2});
    for (int64_t step = 0; step < sums.config.train.steps; ++step) feed.next();
    hash += feed.cursor().hash;
  }
  Feed alone(split, sums.config, {});
  for (int64_t step = 0; step < sums.config.train.steps; ++step) alone.next();
  EXPECT_EQ(hash, alone.cursor().hash);
}

TEST(Epochs, a_last_batch_that_cannot_be_shared_is_refused_with_a_limit_that_can) {
  Sums sums(11, 3, 4);
  try {
    settle_epochs(sums.config, sums.split(), 2);
    FAIL();
  } catch (const base::ConfigError& error) {
    EXPECT_STREQ(error.what(), "3 epochs of 11 samples leave 1 for the last batch, which 2 processes cannot share");
    EXPECT_EQ(error.hint(), "--data.limit=10 leaves 1 sample out");
  }
  sums.config.data.limit = 10;
  EXPECT_NO_THROW(settle_epochs(sums.config, sums.split(), 2));
}

TEST(Epochs, a_last_batch_whose_shares_are_not_equal_is_shared_unless_they_must_be) {
  Sums sums(11, 1, 8);
  const auto split = sums.split();
  settle_epochs(sums.config, split, 2);
  int64_t rows = 0;
  for (int64_t rank = 0; rank < 2; ++rank) {
    Feed feed(split, sums.config, {}, {rank, 2});
    feed.next();
    const int64_t last = feed.next().rows();
    EXPECT_EQ(last, 2 - rank);
    rows += last;
  }
  EXPECT_EQ(rows, 3);
  sums.config.parallel.sync_batch_norm = true;
  EXPECT_THROW(settle_epochs(sums.config, split, 2), base::ConfigError);
}

TEST(Epochs, a_warm_up_longer_than_the_run_is_shortened_and_said) {
  Sums sums(40, 1, 2);
  sums.config.optim.warmup = 100;
  EXPECT_EQ(settle_epochs(sums.config, sums.split(), 1),
            "optim.warmup = 2 in place of 100, as train.epochs = 1 are 20 steps");
  EXPECT_EQ(sums.config.optim.warmup, 2);
}

TEST(EpochMeans, a_step_over_the_end_counts_for_both) {
  EpochMeans means(10);
  EXPECT_FALSE(means.add(0, 4, 1.0));
  EXPECT_FALSE(means.add(4, 8, 2.0));
  const auto first = means.add(8, 12, 3.0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->epoch, 1);
  EXPECT_DOUBLE_EQ(first->loss, (4 * 1.0 + 4 * 2.0 + 2 * 3.0) / 10);
  const auto third = means.add(12, 30, 5.0);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->epoch, 3);
  EXPECT_DOUBLE_EQ(third->loss, 5.0);
}

TEST(EpochMeans, know_an_accuracy_where_every_step_has_one) {
  EpochMeans means(4);
  EXPECT_FALSE(means.add(0, 3, 1.0, 0.5));
  EXPECT_DOUBLE_EQ(*means.add(3, 5, 1.0, 0.9)->accuracy, (3 * 0.5 + 0.9) / 4);
  EXPECT_FALSE(means.add(5, 8, 1.0)->accuracy);
}

}  // namespace
}  // namespace hyperion::train
