// Images in memory: 8-bit red, green and blue of each pixel beside each other, row by row.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace hyperion::images {

struct ImageSize {
  int64_t height = 0, width = 0;
  int64_t pixels() const { return height * width; }
  bool operator==(const ImageSize&) const = default;
};

struct Box {
  int64_t left = 0, top = 0, width = 0, height = 0;
  bool operator==(const Box&) const = default;
};

struct Pixels {
  ImageSize size;
  std::vector<uint8_t> rgb;  // size.pixels() * 3

  Pixels() = default;
  explicit Pixels(ImageSize s) : size(s), rgb(static_cast<size_t>(s.pixels() * 3)) {}
  uint8_t* row(int64_t y) { return rgb.data() + y * size.width * 3; }
  const uint8_t* row(int64_t y) const { return rgb.data() + y * size.width * 3; }
  Box whole() const { return {0, 0, size.width, size.height}; }
};

// A part of an image: pixel (0, 0) stands at (left, top) of the whole, which was made `shrink` times smaller.
struct ImagePart {
  Pixels pixels;
  int64_t left = 0, top = 0, shrink = 1;
  // Where a box of the whole image lies in `pixels`.
  Box find(const Box& box) const;
};

}  // namespace hyperion::images
