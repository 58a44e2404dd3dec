#include "hyperion/data/mix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace hyperion::data {
namespace {

std::vector<Mix> mixes_of(const MixConfig& config, images::ImageSize size, uint64_t seed, int64_t first, int64_t rows) {
  return mix_plan(config, size, seed, {first, rows}).mixes;
}

TEST(Mix, a_row_depends_on_seed_and_position_alone) {
  const auto amount = [](uint64_t seed, int64_t position) { return mix_at({0.8, 0}, {32, 32}, seed, position).own; };
  EXPECT_EQ(amount(5, 9), amount(5, 9));
  EXPECT_NE(amount(5, 9), amount(5, 10));
  EXPECT_NE(amount(5, 9), amount(6, 9));
}

TEST(Mix, every_row_has_a_partner_and_each_is_one_s_alone) {
  for (int64_t rows = 2; rows < 40; ++rows) {
    std::set<int64_t> partners;
    for (int64_t position = 100; position < 100 + rows; ++position) {
      const int64_t partner = mix_partner(position, 100, rows);
      EXPECT_NE(partner, position);
      EXPECT_TRUE(partner >= 100 && partner < 100 + rows);
      partners.insert(partner);
    }
    EXPECT_EQ(partners.size(), static_cast<size_t>(rows));
  }
  EXPECT_EQ(mix_partner(6, 6, 1), 7);
  EXPECT_EQ(mix_partner(7, 7, 1), 6);
}

TEST(Mix, shares_do_what_the_whole_batch_does_and_read_few_images_besides) {
  for (int64_t rows = 1; rows < 40; ++rows) {
    const auto whole = mix_plan({0.8, 1}, {16, 16}, 3, {50, rows});
    EXPECT_EQ(whole.positions.size(), rows == 1 ? 2u : static_cast<size_t>(rows));
    for (int64_t count = 1; count <= rows; ++count)
      for (int64_t rank = 0; rank < count; ++rank) {
        const auto plan = mix_plan({0.8, 1}, {16, 16}, 3, {50, rows, rank, count});
        const size_t own = plan.mixes.size();
        ASSERT_EQ(own, static_cast<size_t>((rows - rank + count - 1) / count));
        for (size_t i = 0; i < own; ++i) {
          const int64_t row = rank + static_cast<int64_t>(i) * count;
          ASSERT_EQ(plan.positions[i], 50 + row);
          EXPECT_EQ(plan.positions[plan.mixes[i].partner], whole.positions[whole.mixes[row].partner]);
          EXPECT_EQ(plan.mixes[i].own, whole.mixes[row].own);
          EXPECT_EQ(plan.mixes[i].box, whole.mixes[row].box);
        }
        EXPECT_LE(plan.positions.size(), 2 * own);
        const bool even_alike = rows % (2 * count) == 0;
        EXPECT_TRUE(plan.positions.size() == own || !even_alike) << rows << " rows, " << count << " shares";
      }
  }
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
      const double own = mix_at({alpha, 0}, {8, 8}, 3, row).own;
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
    const images::Box& box = mix.box;
    ASSERT_TRUE(box.left >= 0 && box.top >= 0 && box.left + box.width <= 40 && box.top + box.height <= 24);
    EXPECT_FLOAT_EQ(mix.own, 1 - static_cast<float>(box.width * box.height) / (24 * 40));
    boxes += box.width > 0;
  }
  EXPECT_GT(boxes, 900);
}

TEST(Mix, pixels_are_those_of_the_plain_formula) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const images::ImageShape shape{3, 10, 14};
  for (const MixConfig& config : {MixConfig{0.5, 0}, MixConfig{0, 1}, MixConfig{0.5, 1}})
    for (const int64_t shares : {1, 2, 4}) {
      const auto plan = mix_plan(config, {shape.height, shape.width}, 11, {3, 9, 0, shares});
      std::vector<float> before(plan.positions.size() * shape.pixels());
      for (float& pixel : before) pixel = normal(random);
      const size_t own_pixels = plan.mixes.size() * shape.pixels();
      std::vector<float> pixels(before.begin(), before.begin() + own_pixels);
      mix_images(pixels, std::span(before).subspan(own_pixels), shape, plan.mixes);
      for (size_t row = 0; row < plan.mixes.size(); ++row)
        for (int64_t i = 0; i < shape.pixels(); ++i) {
          const Mix& mix = plan.mixes[row];
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
