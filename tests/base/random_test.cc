#include "hyperion/base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

namespace hyperion::base {
namespace {

// Known answers published with Random123 (kat_vectors, philox4x32 10). Counter words 0 and 1 are the block, 2 the step,
// 3 the micro-batch.
TEST(Random, philox_gives_the_published_answers) {
  const auto expect = [](const RandomWords& got, std::vector<uint32_t> words) {
    EXPECT_EQ(std::vector<uint32_t>(got.word, got.word + 4), words);
  };
  expect(philox({0, 0}, 0, 0, 0), {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const uint32_t ones = 0xffffffff;
  expect(philox({ones, ones}, ~uint64_t{0}, ones, ones), {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  expect(philox({0xa4093822, 0x299f31d0}, 0x85a308d3'243f6a88, 0x13198a2e, 0x03707344),
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
  static_assert(philox({0, 0}, 0, 0, 0).word[0] == 0x6627e8d5);
}

TEST(Random, each_element_has_bits_of_its_own) {
  const auto key = stream_key(1, "test");
  std::set<uint32_t> seen;
  for (uint64_t element = 0; element < 1000; ++element) seen.insert(random_bits(key, element));
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_NE(random_bits(key, 5, 0, 0), random_bits(key, 5, 1, 0));
  EXPECT_NE(random_bits(key, 5, 0, 0), random_bits(key, 5, 0, 1));
  EXPECT_NE(random_bits(key, 5), random_bits(key, 5 + (uint64_t{1} << 40)));
}

TEST(Random, streams_differ_by_name_and_seed) {
  std::set<std::pair<uint32_t, uint32_t>> keys;
  for (uint64_t seed : {0ull, 1ull, 2ull, 1ull << 32, ~0ull})
    for (const char* name : {"", "a", "b", "init/h.1", "init/h.11"}) {
      const auto key = stream_key(seed, name);
      keys.insert({key.low, key.high});
    }
  EXPECT_EQ(keys.size(), 25u);
  EXPECT_EQ(stream_key(7, "x").low, stream_key(7, "x").low);
}

TEST(Random, unit_floats_never_reach_an_end) {
  for (const uint32_t bits : {0u, 1u, 255u, 256u, 0x7fffffffu, 0x80000000u, 0xfffffeffu, 0xffffff00u, 0xffffffffu}) {
    EXPECT_GT(unit_float(bits), 0.0f) << bits;
    EXPECT_LT(unit_float(bits), 1.0f) << bits;
  }
  EXPECT_LE(unit_float(0x7fffffff), 0.5f);
  EXPECT_GE(unit_float(0x80000000), 0.5f);
}

TEST(Random, unit_floats_are_evenly_spread) {
  const auto key = stream_key(3, "even");
  std::vector<int> bins(16);
  const int count = 160'000;
  for (int i = 0; i < count; ++i) ++bins[static_cast<size_t>(unit_float(random_bits(key, i)) * 16)];
  double chi = 0;
  for (const int bin : bins) chi += (bin - count / 16.0) * (bin - count / 16.0) / (count / 16.0);
  EXPECT_LT(chi, 40);  // 15 degrees of freedom: one in two thousand
}

TEST(Random, random_below_stays_in_range_and_is_unbiased) {
  const auto key = stream_key(4, "below");
  std::vector<int> bins(7);
  const int count = 70'000;
  for (int i = 0; i < count; ++i) ++bins.at(random_below(key, i, 7));
  double chi = 0;
  for (const int bin : bins) chi += (bin - 10'000.0) * (bin - 10'000.0) / 10'000.0;
  EXPECT_LT(chi, 25);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(random_below(key, i, 1), 0u);
    EXPECT_LT(random_below(key, i, ~uint64_t{0}), ~uint64_t{0});
  }
  EXPECT_NE(random_below(key, 0, 1u << 31, 0), random_below(key, 0, 1u << 31, 1));
}

TEST(Random, random_below_reaches_beyond_32_bits) {
  const auto key = stream_key(4, "wide");
  const uint64_t bound = 1'000'000'000'000;
  uint64_t highest = 0;
  std::set<uint64_t> last_digits;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t number = random_below(key, i, bound);
    highest = std::max(highest, number);
    last_digits.insert(number % 10);
  }
  EXPECT_LT(highest, bound);
  EXPECT_GT(highest, bound / 100 * 98);
  EXPECT_EQ(last_digits.size(), 10u);
}

TEST(Random, normal_numbers_in_pieces_equal_those_in_one_go) {
  const auto key = stream_key(5, "normal");
  for (const uint64_t start : {uint64_t{0}, uint64_t{3}, (uint64_t{1} << 34) - 10}) {
    std::vector<float> whole(101), pieces(101);
    fill_normal(key, start, 101, 0.02f, whole.data());
    for (uint64_t at = 0, piece = 0; at < 101; at += piece) {
      piece = std::min<uint64_t>(at % 7 + 1, 101 - at);
      fill_normal(key, start + at, piece, 0.02f, pieces.data() + at);
    }
    EXPECT_EQ(whole, pieces) << start;
  }
  float untouched = 42;
  fill_normal(key, 5, 0, 1, &untouched);
  EXPECT_EQ(untouched, 42);
}

TEST(Random, normal_numbers_have_their_mean_and_deviation) {
  const size_t count = 400'000;
  std::vector<float> numbers(count);
  fill_normal(stream_key(6, "normal"), 1, count, 2, numbers.data());
  double sum = 0, squares = 0, fourth = 0, neighbours = 0;
  for (size_t i = 0; i < count; ++i) {
    const double x = numbers[i];
    ASSERT_TRUE(std::isfinite(x));
    sum += x, squares += x * x, fourth += x * x * x * x;
    if (i > 0) neighbours += x * numbers[i - 1];
  }
  EXPECT_NEAR(sum / count, 0, 0.016);  // five standard errors
  EXPECT_NEAR(std::sqrt(squares / count), 2, 0.012);
  EXPECT_NEAR(fourth / count / 16, 3, 0.09);
  EXPECT_NEAR(neighbours / count / 4, 0, 0.008);
}

}  // namespace
}  // namespace hyperion::base
