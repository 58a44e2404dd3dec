// The numbers an image becomes.
#pragma once
#include <cstdint>

namespace hyperion::images {

struct ImageShape {
  int64_t channels = 3, height = 32, width = 32;
  int64_t pixels() const { return channels * height * width; }
};

}  // namespace hyperion::images
