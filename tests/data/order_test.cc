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

std::vector<int64_t> positions(const Order& order, int64_t first, int64_t count) {
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < count; ++i) samples.push_back(order.at(first + i).index);
  return samples;
}

TEST(Order, each_epoch_holds_each_sample_once_in_an_order_of_its_own) {
  const Order order({13}, {}, 9);
  const auto all = positions(order, 0, 39);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> sorted(all.begin() + epoch * 13, all.begin() + epoch * 13 + 13);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i = 0; i < 13; ++i) EXPECT_EQ(sorted[i], i);
    EXPECT_EQ(order.at(epoch * 13 + 12).epoch, epoch);
  }
  EXPECT_NE(positions(order, 0, 13), positions(order, 13, 13));
}

TEST(Mixture, takes_every_set_by_its_weight_and_each_sample_once_in_its_epochs) {
  const std::vector<int64_t> counts = {1000, 50, 333};
  const Order order(counts, {1, 2, 5}, 4);
  std::vector<std::vector<int64_t>> seen(3);
  const int64_t total = 40'960;
  for (int64_t position = 0; position < total; ++position) {
    int64_t index = order.at(position).index;
    size_t set = 0;
    while (index >= counts[set]) index -= counts[set++];
    seen[set].push_back(index);
  }
  for (size_t set = 0; set < 3; ++set) {
    const double part = static_cast<double>(seen[set].size()) / static_cast<double>(total);
    EXPECT_NEAR(part, std::vector<double>({0.125, 0.25, 0.625})[set], 1e-3);
    // A cycle is taken in a shuffled order, so epochs blur by one cycle at most: over whole cycles none is missed.
    std::vector<int64_t> times(counts[set]);
    for (const int64_t index : seen[set]) ++times[index];
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    EXPECT_LE(*most - *least, 1) << set;
  }
}

TEST(Mixture, mixes_within_any_short_stretch) {
  const Order order({100, 100}, {3, 1}, 1);
  for (int64_t first = 0; first < 4000; first += 400) {
    int second = 0;
    for (int64_t i = 0; i < 400; ++i) second += order.at(first + i).index >= 100;
    EXPECT_GT(second, 50);
    EXPECT_LT(second, 150);
  }
}

TEST(Mixture, a_light_set_is_never_lost) {
  const Order order({10, 10}, {1e-7, 1}, 1);
  bool found = false;
  for (int64_t i = 0; i < 4096; ++i) found |= order.at(i).index < 10;
  EXPECT_TRUE(found);
}

TEST(Cursor, hashes_of_every_nth_position_add_up_to_those_of_all) {
  const auto bytes = [](int64_t position) { return std::to_string(position % 7); };
  uint64_t all = 0;
  for (int64_t position = 0; position < 100; ++position) all += sample_hash(position, bytes(position));
  for (const int64_t ranks : {2, 3, 8}) {
    uint64_t sum = 0;
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (int64_t position = rank; position < 100; position += ranks) sum += sample_hash(position, bytes(position));
    EXPECT_EQ(sum, all);
  }
  EXPECT_NE(sample_hash(0, "a"), sample_hash(1, "a"));
  EXPECT_NE(sample_hash(0, "a"), sample_hash(0, "b"));
}

}  // namespace
}  // namespace hyperion::data
