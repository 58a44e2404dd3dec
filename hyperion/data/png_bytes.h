// A picture as a PNG file, 8-bit red, green and blue.
#pragma once
#include <string>

#include "hyperion/data/pixels.h"

namespace hyperion::data {

std::string png_bytes(const Pixels& image);

}  // namespace hyperion::data
