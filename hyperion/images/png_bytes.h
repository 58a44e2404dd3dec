// A picture as a PNG file, 8-bit red, green and blue.
#pragma once
#include <string>

#include "hyperion/images/pixels.h"

namespace hyperion::images {

std::string png_bytes(const Pixels& image);

}  // namespace hyperion::images
