#include <gtest/gtest.h>

#include "hyperion/images/image_decode.h"
#include "hyperion/images/png_bytes.h"
#include "tests/support/image_files.h"
#include "tests/support/seed.h"

namespace hyperion::images {
namespace {

TEST(PngBytes, are_read_back_pixel_for_pixel) {
  std::mt19937 random(testing::seed());
  for (const ImageSize size : {ImageSize{1, 1}, {3, 1}, {1, 7}, {40, 33}}) {
    const Pixels image = testing::picture(size, random);
    const Pixels read = decode_image(png_bytes(image), "x.png");
    EXPECT_EQ(read.size, size);
    EXPECT_EQ(read.rgb, image.rgb);
  }
}

TEST(PngBytes, take_less_than_the_pixels) {
  Pixels shades({200, 300});
  for (int64_t y = 0; y < 200; ++y)
    for (int64_t x = 0; x < 900; ++x) shades.row(y)[x] = static_cast<uint8_t>(x / 3 + y);
  EXPECT_LT(png_bytes(shades).size(), shades.rgb.size() / 50);
}

}  // namespace
}  // namespace hyperion::images
