// Images of another size, smoothed so that nothing aliases: the same pixels, to the bit, as Pillow's crop and resize.
#pragma once
#include <functional>
#include <span>

#include "hyperion/data/pixels.h"

namespace hyperion::data {

enum class Filter { kBilinear, kBicubic };

// The pixels of `box`, as if it were cut out first, at the given size.
Pixels resize(const Pixels& image, const Box& box, ImageSize size, Filter filter);

// The same row by row, top to bottom: each is seen once, hot in the cache. Its bytes live until the next.
using RowSink = std::function<void(int64_t y, const uint8_t* rgb)>;
void resize_rows(const Pixels& image, const Box& box, ImageSize size, Filter filter, const RowSink& sink);

}  // namespace hyperion::data
