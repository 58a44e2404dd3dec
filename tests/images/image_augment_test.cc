#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <set>
#include <thread>

#include "hyperion/base/error.h"
#include "hyperion/base/words.h"
#include "hyperion/images/augment.h"
#include "hyperion/images/image_decode.h"
#include "hyperion/images/image_operations.h"
#include "hyperion/images/rand_augment.h"
#include "tests/support/image_files.h"

namespace hyperion::images {
namespace {

using testing::jpeg_file;
using testing::picture;
using testing::png_file;

constexpr int64_t kSide = 24;

AugmentConfig resized_crop() {
  AugmentConfig config;
  config.crop = Crop::resized;
  config.flip = true;
  return config;
}

AugmentConfig everything() {
  AugmentConfig config = resized_crop();
  config.jitter = {0.4, 0.4, 0.4, 0.1};
  config.operations = 2;
  return config;
}

AugmentConfig padded() {
  AugmentConfig config;
  config.crop = Crop::padded;
  config.flip = true;
  return config;
}

using Numbers = std::vector<float>;
Numbers made(const Augmenter& augmenter, const Pixels& image, int64_t index, int64_t epoch) {
  Numbers out(3 * kSide * kSide);
  augmenter.apply(image, index, epoch, out);
  return out;
}

TEST(Augment, the_fast_way_gives_the_numbers_of_the_plain_one) {
  std::mt19937 random(1);
  for (const ImageSize size : {ImageSize{61, 45}, ImageSize{kSide, kSide}, ImageSize{20, 90}, ImageSize{130, 8}}) {
    const Pixels image = picture(size, random);
    for (const AugmentConfig& config : {AugmentConfig{}, resized_crop(), everything(), padded()})
      for (const bool training : {false, true}) {
        const Augmenter augmenter(config, kSide, 7, training, kImagenet);
        for (int64_t index = 0; index < 12; ++index) {
          Numbers plain(3 * kSide * kSide);
          augmenter.normalise(augmenter.varied(image, index, 2), plain);
          ASSERT_EQ(made(augmenter, image, index, 2), plain) << base::word_of(config.crop) << index;
        }
      }
  }
}

TEST(Augment, a_file_gives_the_numbers_of_its_pixels) {
  std::mt19937 random(2);
  const Pixels image = picture({91, 80}, random);  // below the size where a JPEG is decoded smaller
  for (const std::string& file : {jpeg_file(image), png_file(image)})
    for (const AugmentConfig& config : {AugmentConfig{}, resized_crop(), everything(), padded()})
      for (const bool training : {false, true}) {
        const Augmenter augmenter(config, kSide, 3, training, kImagenet);
        const Pixels decoded = decode_image(file, "x");
        for (int64_t index = 0; index < 10; ++index) {
          Numbers out(3 * kSide * kSide);
          augmenter.apply(file, "x", index, 1, out);
          ASSERT_EQ(out, made(augmenter, decoded, index, 1)) << base::word_of(config.crop) << index;
        }
      }
}

TEST(Augment, a_large_photograph_decoded_smaller_looks_the_same) {
  std::mt19937 random(3);
  const Pixels image = picture({400, 500}, random);
  const std::string file = jpeg_file(image);
  AugmentConfig config = resized_crop();
  config.least_area = 0.5;
  const Augmenter augmenter(config, kSide, 3, true, kImagenet);
  const Pixels decoded = decode_image(file, "x");
  for (int64_t index = 0; index < 10; ++index) {
    Numbers out(3 * kSide * kSide);
    augmenter.apply(file, "x", index, 0, out);
    const Numbers exact = made(augmenter, decoded, index, 0);
    double apart = 0;
    for (size_t i = 0; i < out.size(); ++i) apart += std::abs(out[i] - exact[i]);
    EXPECT_LT(apart / static_cast<double>(out.size()), 0.05) << index;
  }
}

TEST(Augment, an_image_depends_on_seed_epoch_and_index_alone_whatever_the_threads) {
  std::mt19937 random(4);
  const Pixels image = picture({50, 60}, random);
  const Augmenter augmenter(everything(), kSide, 7, true, kImagenet);
  std::vector<Numbers> alone(40), together(40);
  for (int64_t index = 0; index < 40; ++index) alone[index] = made(augmenter, image, index, 5);
  std::vector<std::thread> threads;
  for (int64_t part = 0; part < 4; ++part)
    threads.emplace_back([&, part] {
      for (int64_t index = 39 - part; index >= 0; index -= 4) together[index] = made(augmenter, image, index, 5);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(alone, together);
  EXPECT_EQ(std::set<Numbers>(alone.begin(), alone.end()).size(), 40u) << "each its own";
  EXPECT_NE(made(augmenter, image, 0, 6), alone[0]);
  EXPECT_NE(made(Augmenter(everything(), kSide, 8, true, kImagenet), image, 0, 5), alone[0]);
}

TEST(Augment, validation_is_not_random) {
  std::mt19937 random(5);
  const Pixels image = picture({50, 60}, random);
  const Augmenter validation(everything(), kSide, 7, false, kImagenet),
      plain(AugmentConfig{}, kSide, 1, true, kImagenet);
  EXPECT_EQ(made(validation, image, 0, 0), made(validation, image, 9, 4));
  EXPECT_EQ(made(validation, image, 0, 0), made(plain, image, 0, 0));
}

// 24 / 0.875 rounds to 27: resized so that the shorter side has 27 pixels, and cut in the middle.
TEST(Augment, validation_shows_the_middle_of_the_resized_image) {
  std::mt19937 random(6);
  const Pixels image = picture({54, 81}, random);
  const Pixels small = resize(image, {image.whole(), {27, 40}});
  Numbers want(3 * kSide * kSide);
  const Augmenter augmenter({}, kSide, 1, false, kHalf);
  augmenter.normalise(resize(small, {{8, 1, kSide, kSide}, {kSide, kSide}}), want);  // half a pixel goes up
  EXPECT_EQ(made(augmenter, image, 0, 0), want);
}

TEST(Augment, numbers_are_normalised_by_channel) {
  Pixels image({kSide, kSide});
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = static_cast<uint8_t>(i % 3 * 100);
  const Numbers out = made(Augmenter({}, kSide, 1, true, kCifar), image, 0, 0);
  EXPECT_FLOAT_EQ(out[0], -0.4914f / 0.2470f);
  EXPECT_FLOAT_EQ(out[kSide * kSide], (100 / 255.0f - 0.4822f) / 0.2435f);
  EXPECT_FLOAT_EQ(out[3 * kSide * kSide - 1], (200 / 255.0f - 0.4465f) / 0.2616f);
}

// Where an image came from is told by its colors: red is the column, green the row.
Pixels map_of(ImageSize size) {
  Pixels image(size);
  for (int64_t y = 0; y < size.height; ++y)
    for (int64_t x = 0; x < size.width; ++x)
      image.row(y)[3 * x] = static_cast<uint8_t>(x + 1), image.row(y)[3 * x + 1] = static_cast<uint8_t>(y + 1);
  return image;
}

TEST(Augment, padded_crops_come_from_every_place_and_side_and_are_black_outside) {
  const Pixels image = map_of({kSide, kSide});
  const Augmenter augmenter(padded(), kSide, 1, true, kHalf);
  std::map<int, int> across, down;
  int mirrored = 0;
  constexpr int kSamples = 3000;
  for (int64_t index = 0; index < kSamples; ++index) {
    Pixels seen = augmenter.varied(image, index, 0);
    const uint8_t* middle = seen.row(12) + 36;
    if (middle[0] > middle[3]) ++mirrored, mirror(seen);
    const int right = 12 - (seen.row(12)[36] - 1), below = 12 - (seen.row(12)[37] - 1);
    ++across[right], ++down[below];
    for (int64_t y = 0; y < kSide; ++y)
      for (int64_t x = 0; x < kSide; ++x) {
        const int64_t from_x = x - right, from_y = y - below;
        const bool inside = from_x >= 0 && from_x < kSide && from_y >= 0 && from_y < kSide;
        ASSERT_EQ(seen.row(y)[3 * x], inside ? from_x + 1 : 0);
        ASSERT_EQ(seen.row(y)[3 * x + 1], inside ? from_y + 1 : 0);
      }
  }
  EXPECT_EQ(across.size(), 9u);
  EXPECT_EQ(down.size(), 9u);
  for (const auto& [place, count] : across) EXPECT_NEAR(count, kSamples / 9.0, 90) << place;
  EXPECT_NEAR(mirrored, kSamples / 2.0, 140);
}

TEST(Augment, random_parts_have_the_areas_and_ratios_asked_for) {
  const Pixels image = map_of({160, 200});
  AugmentConfig config = resized_crop();
  config.flip = false;
  config.least_area = 0.2;
  const Augmenter augmenter(config, kSide, 1, true, kHalf);
  double least = 1, most = 0, sum = 0;
  constexpr int kSamples = 2000;
  for (int64_t index = 0; index < kSamples; ++index) {
    const Pixels seen = augmenter.varied(image, index, 0);
    const uint8_t *first = seen.row(0), *last = seen.row(kSide - 1) + 3 * (kSide - 1);
    const double scale = kSide / (kSide - 1.0), width = (last[0] - first[0]) * scale,
                 height = (last[1] - first[1]) * scale;
    const double area = width * height / (160 * 200), ratio = width / height;
    EXPECT_GT(ratio, 0.69);
    EXPECT_LT(ratio, 1.45);
    least = std::min(least, area), most = std::max(most, area), sum += area;
  }
  EXPECT_NEAR(least, 0.2, 0.03);
  EXPECT_GT(most, 0.9);
  EXPECT_NEAR(sum / kSamples, 0.5, 0.04);  // below 0.6: large parts often do not fit
}

// The plain forms of operations are Pillow's own: tests/oracle/image_test.py holds each against it. Here, what must
// hold whatever the picture.
TEST(Augment, operations_that_should_change_nothing_change_nothing) {
  std::mt19937 random(8);
  const Pixels image = picture({19, 31}, random);
  const std::vector<std::function<void(Pixels&)>> idle = {
      [](Pixels& p) { brighten(p, 1); },       [](Pixels& p) { contrast(p, 1); },
      [](Pixels& p) { saturate(p, 1); },       [](Pixels& p) { sharpen(p, 1); },
      [](Pixels& p) { posterize(p, 8); },      [](Pixels& p) { solarize(p, 256); },
      [](Pixels& p) { shear_across(p, 0); },   [](Pixels& p) { shear_down(p, 0); },
      [](Pixels& p) { shift(p, 0, 0); },       [](Pixels& p) { rotate(p, 0); },
      [](Pixels& p) { mirror(p), mirror(p); }, [](Pixels& p) { solarize(p, 0), solarize(p, 0); }};
  for (size_t i = 0; i < idle.size(); ++i) {
    Pixels changed = image;
    idle[i](changed);
    EXPECT_EQ(changed.rgb, image.rgb) << i;
  }
}

TEST(Augment, every_operation_of_rand_augment_comes) {
  std::mt19937 random(9);
  const Pixels image = picture({40, 40}, random);
  std::set<std::vector<uint8_t>> seen;
  for (int64_t index = 0; index < 2000; ++index) {
    Draws draws({1, 2}, index, 0);
    Pixels changed = image;
    rand_augment(changed, 1, 15, draws);
    seen.insert(changed.rgb);
  }
  // Nine with a sign, five without.
  EXPECT_EQ(seen.size(), 23u);
}

TEST(Augment, settings_that_contradict_each_other_are_refused) {
  AugmentConfig config;
  config.padding = 2;
  EXPECT_THROW(check(config), base::ConfigError);
  config.crop = Crop::padded;
  EXPECT_NO_THROW(check(config));
  config.padding = 0;
  EXPECT_THROW(check(config), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::images
