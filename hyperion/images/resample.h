// Images of another size, smoothed so that nothing aliases: the same pixels, to the bit, as Pillow's crop and resize.
#pragma once
#include <functional>

#include "hyperion/images/pixels.h"

namespace hyperion::images {

enum class Filter { kBilinear, kBicubic };

struct Resize {
  Box box;         // of the image, as if it were cut out first
  ImageSize size;  // that it is given
  Filter filter = Filter::kBilinear;
  Box shown = {0, 0, size.width, size.height};  // the part of the result that is made
};
Pixels resize(const Pixels& image, const Resize& how);

// The same row by row, top to bottom: each is seen once, hot in the cache. Its bytes live until the next.
using RowSink = std::function<void(int64_t y, const uint8_t* rgb)>;
void resize_rows(const Pixels& image, const Resize& how, const RowSink& sink);

}  // namespace hyperion::images
