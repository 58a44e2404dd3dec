// What tells a folder of images from any other.
#pragma once
#include <string>

#include "hyperion/data/image_folder.h"

namespace hyperion::data {

// Of names, labels, sizes and content. Folders of more than `whole` bytes are not read through, which could take as
// long as an epoch: of each file the beginning and the end count, and of more than `most` files so many, spread evenly.
std::string image_digest(const ImageSplit& split, uint64_t whole = uint64_t{1} << 30, size_t most = 200'000);

// Of names, labels and sizes alone, as checkpoints of older versions have it.
std::string image_listing_digest(const ImageSplit& split);

}  // namespace hyperion::data
