// A picture as a PNG file, without compression: for pages and looks, not for keeping.
#pragma once
#include <string>

#include "hyperion/data/pixels.h"

namespace hyperion::data {

std::string png_bytes(const Pixels& image);

}  // namespace hyperion::data
