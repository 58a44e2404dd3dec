// The two formats behind image_decode.h. Where a library was not there at build time, its stub throws.
#pragma once
#include <string>
#include <string_view>

#include "hyperion/images/pixels.h"

namespace hyperion::images {

inline constexpr std::string_view kJpegMagic = "\xff\xd8\xff", kPngMagic = "\x89PNG\r\n\x1a\n";

ImageSize jpeg_size(std::string_view bytes, const std::string& name, int64_t most_pixels);
// All of the image, damage anywhere being an error, or at least the box.
ImagePart decode_jpeg(std::string_view bytes, const std::string& name, int64_t most_pixels, const Box* box = nullptr,
                      int64_t shrink = 1);

ImageSize png_size(std::string_view bytes, const std::string& name, int64_t most_pixels);
Pixels decode_png(std::string_view bytes, const std::string& name, int64_t most_pixels);

// Throws where an image of that size has no pixels or too many.
void check_size(ImageSize size, const std::string& name, int64_t most_pixels);

}  // namespace hyperion::images
