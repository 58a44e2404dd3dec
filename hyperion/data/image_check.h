// Files that cannot be images, found without decoding any.
#pragma once
#include <string>

#include "hyperion/data/image_folder.h"

namespace hyperion::data {

// Why the file cannot be read at all, as of a link that leads nowhere or a pipe; empty where it can.
std::string why_unreadable(const base::Path& path);

inline constexpr const char* kBrokenImageHint =
    "mend or remove it and start a new run, or make a set without: hyperion data prepare RECIPE --on-bad skip";

// Throws CorruptError, which counts them and names the first, where files do not begin as a JPEG or PNG file does. The
// first `most` files are looked at, by several threads.
void refuse_broken_images(const ImageSplit& split, size_t most = 200'000);

}  // namespace hyperion::data
