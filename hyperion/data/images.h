// The sources of images that settings name.
#pragma once
#include "hyperion/data/image_source.h"
#include "hyperion/data/source.h"

namespace hyperion::data {

// Ten simple shapes, drawn from the seed at any place, size and color over noise; images of `side` pixels.
Split open_shapes(const DataConfig& config, int64_t side, uint64_t seed);

// CIFAR-10 or CIFAR-100 in their binary form: a folder with data_batch_1.bin ... and test_batch.bin, or train.bin and
// test.bin. The test files are the validation set. Images are made `side` pixels large; 0: they stay as they are.
Split open_cifar(const DataConfig& config, int64_t side, uint64_t seed);

// A folder of JPEG and PNG files (data/image_folder.h), decoded as they are read.
Split open_image_files(const DataConfig& config, int64_t side, uint64_t seed);

}  // namespace hyperion::data
