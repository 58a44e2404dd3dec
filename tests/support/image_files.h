// Pictures to test with, and encoders for them.
#pragma once
#include <random>
#include <string>

#include "hyperion/images/pixels.h"

namespace hyperion::testing {

// Smooth colors, a disc with a hard edge, a little noise.
images::Pixels picture(images::ImageSize size, std::mt19937& random);

struct JpegForm {
  int quality = 90;
  int channels = 3;          // 1: grey, 4: inks as Adobe writes them, 255 being none
  int across = 2, down = 2;  // pixels a chroma sample
  bool progressive = false;
  int restart_rows = 0;
};
// Grey takes the red channel; inks are red, green and blue, and 255 for black.
std::string jpeg_file(const images::Pixels& image, const JpegForm& form = {});

struct PngForm {
  int channels = 3;  // 1: grey, 2: grey and alpha, 3, 4: RGB and alpha
  int bits = 8;      // 16: each byte twice; 1, 2, 4: grey alone, the highest bits
  bool palette = false, interlaced = false;
};
// A palette holds 256 greys, so that red alone is kept.
std::string png_file(const images::Pixels& image, const PngForm& form = {});

}  // namespace hyperion::testing
