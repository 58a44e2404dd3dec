#include "hyperion/data/mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace hyperion::data {
namespace {

TEST(Mix, a_row_depends_on_seed_step_and_row_alone) {
  const MixConfig config{0.8, 1.0};
  for (int64_t row = 0; row < 16; ++row) {
    const Mix one = mix_of(config, {32, 32}, 5, 9, row, 16), among_more = mix_of(config, {32, 32}, 5, 9, row, 64);
    EXPECT_EQ(one.own, among_more.own);
    EXPECT_EQ(one.box, among_more.box);
    EXPECT_EQ(one.partner, among_more.partner);
  }
  EXPECT_NE(mix_of({0.8, 0}, {32, 32}, 5, 9, 3, 16).own, mix_of({0.8, 0}, {32, 32}, 5, 10, 3, 16).own);
  EXPECT_NE(mix_of({0.8, 0}, {32, 32}, 5, 9, 3, 16).own, mix_of({0.8, 0}, {32, 32}, 6, 9, 3, 16).own);
}

TEST(Mix, partners_are_each_others_and_an_odd_one_stays_alone) {
  const auto mixes = mixes_of({1, 0}, {8, 8}, 1, 0, 7);
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_NE(mixes[row].partner, row);
    EXPECT_EQ(mixes[mixes[row].partner].partner, row);
  }
  EXPECT_EQ(mixes[6].partner, 6);
  EXPECT_EQ(mixes[6].own, 1);
}

TEST(Mix, nothing_is_mixed_unless_asked) {
  for (const Mix& mix : mixes_of({}, {8, 8}, 1, 0, 4)) EXPECT_EQ(mix.own, 1);
}

// Mean 1/2, variance 1 / (4 (2 alpha + 1)).
TEST(Mix, amounts_are_beta_distributed) {
  for (const double alpha : {0.1, 0.2, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    constexpr int kRows = 20000;
    for (int64_t row = 0; row < kRows; ++row) {
      const double own = mix_of({alpha, 0}, {8, 8}, 3, 1, row, kRows).own;
      ASSERT_TRUE(own >= 0 && own <= 1);
      sum += own, squares += own * own;
    }
    const double mean = sum / kRows, variance = squares / kRows - mean * mean, wanted = 1 / (4 * (2 * alpha + 1));
    EXPECT_NEAR(mean, 0.5, 5 * std::sqrt(wanted / kRows)) << alpha;
    EXPECT_NEAR(variance, wanted, 0.03 * wanted) << alpha;
  }
}

TEST(Mix, labels_weigh_what_is_seen_of_each_image) {
  int boxes = 0;
  for (const Mix& mix : mixes_of({0, 1}, {24, 40}, 4, 2, 1000)) {
    const Box& box = mix.box;
    ASSERT_TRUE(box.left >= 0 && box.top >= 0 && box.left + box.width <= 40 && box.top + box.height <= 24);
    EXPECT_FLOAT_EQ(mix.own, 1 - static_cast<float>(box.width * box.height) / (24 * 40));
    boxes += box.width > 0;
  }
  EXPECT_GT(boxes, 900);
}

TEST(Mix, pixels_are_those_of_the_plain_formula) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const ImageShape shape{3, 10, 14};
  for (const MixConfig& config : {MixConfig{0.5, 0}, MixConfig{0, 1}, MixConfig{0.5, 1}}) {
    const auto mixes = mixes_of(config, {shape.height, shape.width}, 11, 3, 9);
    std::vector<float> pixels(9 * shape.pixels());
    for (float& pixel : pixels) pixel = normal(random);
    const auto before = pixels;
    mix_images(pixels, shape, mixes);
    for (int64_t row = 0; row < 9; ++row)
      for (int64_t i = 0; i < shape.pixels(); ++i) {
        const Mix& mix = mixes[row];
        const int64_t y = i / 14 % 10, x = i % 14;
        const bool inside = y >= mix.box.top && y < mix.box.top + mix.box.height && x >= mix.box.left &&
                            x < mix.box.left + mix.box.width;
        const float own = before[row * shape.pixels() + i], other = before[mix.partner * shape.pixels() + i];
        const float want = mix.box.width > 0 ? (inside ? other : own) : mix.own * own + (1 - mix.own) * other;
        ASSERT_NEAR(pixels[row * shape.pixels() + i], want, 1e-6) << row << " " << i;
      }
  }
}

}  // namespace
}  // namespace hyperion::data
