// How fast one core makes training images of JPEG files: decoded, a random part resized, normalised.
#pragma once
#include <string>
#include <vector>

#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct ImageRate {
  profile::Spread seconds;  // of the processor, an image
  double images_per_second = 0;
};

// `files` are the bytes of JPEG or PNG files; images come out `side` pixels high and wide, each time another part of
// each.
ImageRate time_images(const std::vector<std::string>& files, int64_t side, const profile::Budget& budget);

}  // namespace hyperion::bench
