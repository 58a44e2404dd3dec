// JPEG and PNG files to pixels. What is truncated, damaged or too large is a CorruptError that names the image and says
// why, never half a picture; sizes are checked before memory is taken. Any thread may call these.
#pragma once
#include <string>
#include <string_view>

#include "hyperion/images/pixels.h"

namespace hyperion::images {

inline constexpr int64_t kMostPixels = 100'000'000;

// Both formats are told by their first bytes; `name` is what errors call the image. Grey, palettes, 16 bits, CMYK and
// alpha become 8-bit RGB as Pillow's convert("RGB") does it: alpha is dropped, the orientation of EXIF is not followed.
Pixels decode_image(std::string_view bytes, const std::string& name, int64_t most_pixels = kMostPixels);

bool begins_as_image(std::string_view bytes);  // as a JPEG or PNG file does

// From the header alone.
ImageSize image_size(std::string_view bytes, const std::string& name, int64_t most_pixels = kMostPixels);

// At least the pixels of `box`, equal to those of decode_image, in less time: what lies outside is not decoded where
// the format allows. So damage beyond the box can go unseen; a JPEG that is cut off anywhere does not. `shrink` (1, 2,
// 4 or 8) allows a JPEG to be decoded that many times smaller, by less work in each block.
ImagePart decode_part(std::string_view bytes, const std::string& name, const Box& box, int64_t shrink = 1,
                      int64_t most_pixels = kMostPixels);

}  // namespace hyperion::images
