#include "hyperion/data/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/data/cursor.h"

namespace hyperion::data {
namespace {

std::vector<int64_t> order(int64_t count, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> samples;
  for (int64_t position = 0; position < count; ++position) samples.push_back(shuffled(position, count, seed, epoch));
  return samples;
}

TEST(Order, every_sample_comes_once_an_epoch) {
  for (const int64_t count : {1, 2, 3, 4, 5, 7, 15, 16, 17, 63, 64, 65, 100, 255, 257, 997, 4095, 4097})
    for (const int64_t epoch : {0, 1, 5}) {
      std::vector<bool> seen(count);
      for (const int64_t sample : order(count, 3, epoch)) {
        ASSERT_TRUE(sample >= 0 && sample < count);
        EXPECT_FALSE(seen[sample]) << count;
        seen[sample] = true;
      }
    }
}

TEST(Order, epochs_and_seeds_have_orders_of_their_own) {
  const auto first = order(1000, 1, 0);
  EXPECT_EQ(first, order(1000, 1, 0));
  EXPECT_NE(first, order(1000, 1, 1));
  EXPECT_NE(first, order(1000, 2, 0));
  EXPECT_NE(order(1000, 1, 1), order(1000, 2, 0));
}

TEST(Order, leaves_few_samples_in_their_place) {
  for (const int64_t epoch : {0, 1, 2, 3}) {
    const auto samples = order(10'000, 7, epoch);
    int in_place = 0, in_sequence = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      in_place += samples[i] == static_cast<int64_t>(i);
      in_sequence += i > 0 && samples[i] == samples[i - 1] + 1;
    }
    EXPECT_LT(in_place, 12);  // one is expected
    EXPECT_LT(in_sequence, 12);
  }
}

TEST(Order, spreads_the_first_samples_over_the_whole) {
  double sum = 0;
  for (int64_t position = 0; position < 1000; ++position)
    sum += static_cast<double>(shuffled(position, 1'000'000, 1, 0));
  EXPECT_NEAR(sum / 1000, 500'000, 46'000);  // five standard errors
}

TEST(Order, serves_data_sets_of_any_size) {
  const int64_t count = 1'000'000'000'000;
  for (const int64_t position : {int64_t{0}, int64_t{1}, count / 2, count - 1}) {
    const int64_t sample = shuffled(position, count, 1, 1'000'000);
    EXPECT_TRUE(sample >= 0 && sample < count);
  }
}

TEST(Order, a_position_outside_its_epoch_is_refused) {
  EXPECT_THROW(shuffled(-1, 5, 1, 0), base::Error);
  EXPECT_THROW(shuffled(5, 5, 1, 0), base::Error);
  EXPECT_THROW(shuffled(0, 0, 1, 0), base::Error);
}

std::vector<int64_t> samples_by(int64_t batch, int64_t total, Cursor cursor = {}) {
  std::vector<int64_t> samples;
  while (static_cast<int64_t>(samples.size()) < total)
    for (int64_t row = 0; row < batch; ++row) samples.push_back(take(cursor, 13, 9).index);
  samples.resize(total);
  return samples;
}

TEST(Cursor, any_batch_size_gives_the_same_sequence_across_epochs) {
  const auto one_by_one = samples_by(1, 100);
  for (const int64_t batch : {2, 3, 5, 12, 13, 14, 26, 50, 100}) EXPECT_EQ(samples_by(batch, 100), one_by_one) << batch;
}

TEST(Cursor, a_cursor_continues_where_it_stood) {
  const auto all = samples_by(1, 100);
  for (const int64_t taken : {1, 12, 13, 14, 39, 60})
    EXPECT_EQ(samples_by(4, 40, {taken}), std::vector<int64_t>(all.begin() + taken, all.begin() + taken + 40)) << taken;
}

TEST(Cursor, each_epoch_holds_each_sample_once) {
  const auto all = samples_by(1, 39);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> sorted(all.begin() + epoch * 13, all.begin() + epoch * 13 + 13);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < 13; ++i) EXPECT_EQ(sorted[i], i);
  }
}

TEST(Cursor, says_which_epoch_a_sample_belongs_to) {
  Cursor cursor;
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(take(cursor, 3, 1).epoch, i / 3);
}

TEST(Cursor, counts_samples) {
  Cursor cursor;
  for (int i = 0; i < 7; ++i) take(cursor, 3, 1);
  EXPECT_EQ(cursor.samples, 7);
}

}  // namespace
}  // namespace hyperion::data
