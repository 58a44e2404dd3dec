#include "hyperion/images/resample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "hyperion/base/error.h"

namespace hyperion::images {
namespace {

// Of middling contrast, so that no cubic overshoots on the way: what does is cut off between the two directions.
Pixels noise(ImageSize size, unsigned seed) {
  std::mt19937 random(seed);
  Pixels image(size);
  for (uint8_t& value : image.rgb) value = static_cast<uint8_t>(64 + random() % 128);
  return image;
}

double weight(double x, Filter filter) {
  x = std::abs(x);
  if (filter == Filter::kBilinear) return x < 1 ? 1 - x : 0;
  if (x < 1) return 1.5 * x * x * x - 2.5 * x * x + 1;
  return x < 2 ? -0.5 * x * x * x + 2.5 * x * x - 4 * x + 2 : 0;
}

// Every input pixel of the box looked at for every output pixel, without rounding on the way.
double plain(const Pixels& image, const Box& box, ImageSize size, Filter filter, int64_t y, int64_t x, int64_t c) {
  const auto along = [&](int64_t from, int64_t to, int64_t at, auto value) {
    const double scale = static_cast<double>(from) / static_cast<double>(to), stretch = std::max(scale, 1.0);
    double sum = 0, total = 0;
    for (int64_t i = 0; i < from; ++i) {
      const double w =
          weight((static_cast<double>(i) + 0.5 - (static_cast<double>(at) + 0.5) * scale) / stretch, filter);
      if (w != 0) sum += w * value(i), total += w;
    }
    return sum / total;
  };
  return along(box.height, size.height, y, [&](int64_t row) {
    return along(box.width, size.width, x, [&](int64_t column) {
      return static_cast<double>(image.row(box.top + row)[3 * (box.left + column) + c]);
    });
  });
}

TEST(Resample, comes_within_a_level_of_the_plain_sum) {
  const Pixels image = noise({40, 53}, 1);
  for (const Filter filter : {Filter::kBilinear, Filter::kBicubic})
    for (const Box& box : {Box{0, 0, 53, 40}, Box{3, 5, 30, 20}, Box{10, 0, 1, 40}, Box{52, 39, 1, 1}})
      for (const ImageSize& size : {ImageSize{17, 23}, ImageSize{1, 1}, ImageSize{64, 80}, ImageSize{20, 30}}) {
        const Pixels made = resize(image, {box, size, filter});
        for (int64_t y = 0; y < size.height; ++y)
          for (int64_t x = 0; x < size.width; ++x)
            for (int64_t c = 0; c < 3; ++c) {
              const double want = std::clamp(plain(image, box, size, filter, y, x, c), 0.0, 255.0);
              ASSERT_NEAR(made.row(y)[3 * x + c], want, filter == Filter::kBilinear ? 1.01 : 1.5)
                  << box.left << " " << box.width << " to " << size.width << " at " << x << "," << y;
            }
      }
}

TEST(Resample, the_same_size_changes_nothing) {
  const Pixels image = noise({9, 7}, 2);
  for (const Filter filter : {Filter::kBilinear, Filter::kBicubic})
    EXPECT_EQ(resize(image, {image.whole(), image.size, filter}).rgb, image.rgb);
}

TEST(Resample, pixels_outside_the_box_have_no_part_in_it) {
  Pixels image = noise({30, 30}, 3);
  const Box box{7, 8, 15, 13};
  const Pixels before = resize(image, {box, {10, 10}, Filter::kBicubic});
  for (int64_t y = 0; y < 30; ++y)
    for (int64_t x = 0; x < 30; ++x)
      if (y < 8 || y >= 21 || x < 7 || x >= 22) image.row(y)[3 * x] = image.row(y)[3 * x + 1] = 0;
  EXPECT_EQ(resize(image, {box, {10, 10}, Filter::kBicubic}).rgb, before.rgb);
}

TEST(Resample, a_part_of_the_result_is_that_part) {
  const Pixels image = noise({37, 50}, 5);
  for (const ImageSize& size : {ImageSize{20, 27}, ImageSize{37, 60}, ImageSize{50, 50}, ImageSize{37, 50}}) {
    const Box box{0, 0, 50, 37}, shown{5, 3, 12, 15};
    const Pixels whole = resize(image, {box, size}), part = resize(image, {box, size, Filter::kBilinear, shown});
    ASSERT_EQ(part.size, (ImageSize{15, 12}));
    for (int64_t y = 0; y < 15; ++y)
      EXPECT_TRUE(std::equal(part.row(y), part.row(y) + 36, whole.row(3 + y) + 15)) << size.width << " " << y;
  }
}

TEST(Resample, a_flat_colour_stays_itself) {
  Pixels image({33, 21});
  std::fill(image.rgb.begin(), image.rgb.end(), uint8_t{251});
  for (const ImageSize& size : {ImageSize{5, 9}, ImageSize{100, 70}, ImageSize{33, 2}})
    for (const uint8_t value : resize(image, {image.whole(), size, Filter::kBicubic}).rgb) ASSERT_EQ(value, 251);
}

TEST(Resample, a_box_outside_the_image_is_refused) {
  const Pixels image = noise({8, 8}, 4);
  EXPECT_THROW(resize(image, {.box = {1, 0, 8, 8}, .size = {4, 4}}), base::Error);
  EXPECT_THROW(resize(image, {.box = {0, 0, 0, 8}, .size = {4, 4}}), base::Error);
}

}  // namespace
}  // namespace hyperion::images
