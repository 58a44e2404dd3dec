#include "hyperion/images/image_decode.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "hyperion/base/error.h"
#include "tests/support/image_files.h"

namespace hyperion::images {
namespace {

using testing::jpeg_file;
using testing::JpegForm;
using testing::picture;
using testing::png_file;
using testing::PngForm;

double mean_difference(const Pixels& one, const Pixels& other) {
  EXPECT_EQ(one.size, other.size);
  double sum = 0;
  for (size_t i = 0; i < one.rgb.size(); ++i) sum += std::abs(one.rgb[i] - other.rgb[i]);
  return sum / static_cast<double>(one.rgb.size());
}

Pixels grey_of(Pixels image) {
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = image.rgb[i - i % 3];
  return image;
}

std::string decode_refusal(const std::string& bytes, int64_t most_pixels = kMostPixels) {
  try {
    decode_image(bytes, "x", most_pixels);
  } catch (const base::CorruptError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ImageDecode, png_of_every_form_gives_its_pixels_back) {
  std::mt19937 random(1);
  const Pixels image = picture({23, 37}, random), grey = grey_of(image);
  for (const bool interlaced : {false, true}) {
    for (const int bits : {8, 16}) {
      EXPECT_EQ(decode_image(png_file(image, {3, bits, false, interlaced}), "x").rgb, image.rgb);
      EXPECT_EQ(decode_image(png_file(image, {4, bits, false, interlaced}), "x").rgb, image.rgb) << "alpha is dropped";
      EXPECT_EQ(decode_image(png_file(image, {1, bits, false, interlaced}), "x").rgb, grey.rgb);
      EXPECT_EQ(decode_image(png_file(image, {2, bits, false, interlaced}), "x").rgb, grey.rgb);
    }
    EXPECT_EQ(decode_image(png_file(image, {1, 8, true, interlaced}), "x").rgb, grey.rgb);
    for (const int bits : {1, 2, 4}) {
      Pixels coarse = grey;
      for (uint8_t& value : coarse.rgb) value = static_cast<uint8_t>((value >> (8 - bits)) * 255 / ((1 << bits) - 1));
      EXPECT_EQ(decode_image(png_file(image, {1, bits, false, interlaced}), "x").rgb, coarse.rgb) << bits;
    }
  }
}

TEST(ImageDecode, jpeg_of_every_form_comes_near_its_picture) {
  std::mt19937 random(2);
  const Pixels image = picture({61, 83}, random);
  for (const bool progressive : {false, true}) {
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}})
      EXPECT_LT(mean_difference(decode_image(jpeg_file(image, {95, 3, across, down, progressive, 1}), "x"), image), 5)
          << across << down << progressive;
    EXPECT_LT(mean_difference(decode_image(jpeg_file(image, {95, 1, 1, 1, progressive, 0}), "x"), grey_of(image)), 4);
    EXPECT_LT(mean_difference(decode_image(jpeg_file(image, {95, 4, 1, 1, progressive, 0}), "x"), image), 4) << "inks";
  }
}

TEST(ImageDecode, a_part_has_the_pixels_of_the_whole) {
  std::mt19937 random(3);
  for (const bool progressive : {false, true})
    for (const auto& [across, down] : {std::pair{1, 1}, {2, 1}, {2, 2}, {1, 2}}) {
      const std::string file = jpeg_file(picture({131, 203}, random), {90, 3, across, down, progressive, 0});
      const Pixels whole = decode_image(file, "x");
      for (int round = 0; round < 60; ++round) {
        Box box;
        box.left = static_cast<int64_t>(random() % 203), box.top = static_cast<int64_t>(random() % 131);
        box.width = 1 + static_cast<int64_t>(random() % (203 - box.left));
        box.height = 1 + static_cast<int64_t>(random() % (131 - box.top));
        const ImagePart part = decode_part(file, "x", box);
        const Box found = part.find(box);
        ASSERT_TRUE(found.left >= 0 && found.left + found.width <= part.pixels.size.width);
        ASSERT_EQ(found.height, part.pixels.size.height) << "no row too many";
        for (int64_t y = 0; y < box.height; ++y)
          ASSERT_TRUE(std::equal(part.pixels.row(found.top + y) + 3 * found.left,
                                 part.pixels.row(found.top + y) + 3 * (found.left + box.width),
                                 whole.row(box.top + y) + 3 * box.left))
              << across << down << progressive << " " << box.left << "," << box.top << " " << box.width << "x"
              << box.height << " row " << y;
      }
    }
}

TEST(ImageDecode, a_shrunken_part_shows_the_same_place) {
  std::mt19937 random(4);
  const Pixels image = picture({160, 240}, random);
  const std::string file = jpeg_file(image);
  for (const int64_t shrink : {2, 4, 8}) {
    const Box box{48, 32, 128, 96};
    const ImagePart part = decode_part(file, "x", box, shrink);
    const Box found = part.find(box);
    EXPECT_EQ(found.width, 128 / shrink);
    EXPECT_EQ(found.height, 96 / shrink);
    double off = 0;
    for (int64_t y = 0; y < found.height; ++y)
      for (int64_t x = 0; x < found.width; ++x)
        for (int64_t c = 0; c < 3; ++c) {
          double mean = 0;
          for (int64_t i = 0; i < shrink * shrink; ++i)
            mean += image.row(32 + y * shrink + i / shrink)[3 * (48 + x * shrink + i % shrink) + c];
          off += std::abs(part.pixels.row(found.top + y)[3 * (found.left + x) + c] -
                          mean / static_cast<double>(shrink * shrink));
        }
    EXPECT_LT(off / static_cast<double>(found.width * found.height * 3), 6) << shrink;
  }
}

TEST(ImageDecode, sizes_come_from_the_header_alone) {
  std::mt19937 random(5);
  const Pixels image = picture({31, 47}, random);
  EXPECT_EQ(image_size(jpeg_file(image), "x"), (ImageSize{31, 47}));
  EXPECT_EQ(image_size(png_file(image).substr(0, 60), "x"), (ImageSize{31, 47}));
}

TEST(ImageDecode, a_file_cut_off_anywhere_is_refused) {
  std::mt19937 random(6);
  const Pixels image = picture({40, 40}, random);
  for (const std::string& file : {jpeg_file(image), jpeg_file(image, {90, 3, 2, 2, true, 0}), png_file(image)})
    for (size_t length = 0; length < file.size(); ++length) {
      ASSERT_NE(decode_refusal(file.substr(0, length)), "accepted") << length;
      ASSERT_THROW(decode_part(file.substr(0, length), "x", {0, 0, 4, 4}), base::CorruptError) << length;
    }
}

TEST(ImageDecode, the_reason_of_a_refusal_is_told) {
  std::mt19937 random(7);
  std::string jpeg = jpeg_file(picture({64, 64}, random)), png = png_file(picture({64, 64}, random));
  EXPECT_EQ(decode_refusal(""), "x: empty");
  EXPECT_EQ(decode_refusal("GIF89a..."), "x: neither a JPEG nor a PNG file");
  EXPECT_EQ(decode_refusal(jpeg.substr(0, jpeg.size() / 2)), "x: a JPEG file that is cut off");
  EXPECT_EQ(decode_refusal(png.substr(0, png.size() / 2)), "x: damaged PNG file: the file ends too early");
  for (size_t i = jpeg.size() / 2; i < jpeg.size() / 2 + 40; ++i) jpeg[i] = '\x55';
  EXPECT_NE(decode_refusal(jpeg).find("x: damaged JPEG file: Corrupt JPEG data"), std::string::npos)
      << decode_refusal(jpeg);
  png[png.size() / 2] ^= 1;
  EXPECT_NE(decode_refusal(png).find("x: damaged PNG file: "), std::string::npos) << decode_refusal(png);
}

TEST(ImageDecode, a_bomb_is_refused_before_memory_is_taken) {
  std::mt19937 random(8);
  std::string jpeg = jpeg_file(picture({8, 8}, random));
  const size_t frame = jpeg.find("\xff\xc0");
  for (size_t i = frame + 5; i < frame + 9; ++i) jpeg[i] = '\x7f';
  EXPECT_EQ(decode_refusal(jpeg), "x: 32639 x 32639 pixels are more than the 100,000,000 allowed");
  const std::string small = png_file(picture({20, 30}, random));
  EXPECT_EQ(decode_refusal(small, 599), "x: 30 x 20 pixels are more than the 599 allowed");
  EXPECT_EQ(decode_refusal(small, 600), "accepted");
}

}  // namespace
}  // namespace hyperion::images
