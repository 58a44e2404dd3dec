// Where images come from: each has a label and is found by its index alone.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "hyperion/data/source.h"
#include "hyperion/images/image_processing.h"
#include "hyperion/images/image_shape.h"

namespace hyperion::data {

class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual int64_t samples() const = 0;
  virtual images::ImageShape shape() const = 0;
  virtual int64_t classes() const = 0;
  virtual std::vector<std::string> class_names() const { return {}; }  // by label; empty: they have none
  // Nothing where images are made here and not read.
  virtual std::optional<images::ImageProcessing> processing() const { return {}; }
  // Writes the pixels of sample `index`, channel by channel and row by row, about zero mean and unit deviation; how the
  // image varies depends on the epoch too, where it varies. Returns its label. Any thread.
  virtual int64_t read(int64_t index, int64_t epoch, std::span<float> out) const = 0;
};

// Ten simple shapes, drawn from the seed at any place, size and colour over noise; images of `side` pixels.
Split open_shapes(const DataConfig& config, int64_t side, uint64_t seed);

// CIFAR-10 or CIFAR-100 in their binary form: a folder with data_batch_1.bin ... and test_batch.bin, or train.bin and
// test.bin. The test files are the validation set. Images are made `side` pixels large; 0: they stay as they are.
Split open_cifar(const DataConfig& config, int64_t side, uint64_t seed);

// A folder of JPEG and PNG files (data/image_folder.h), decoded as they are read.
Split open_image_files(const DataConfig& config, int64_t side, uint64_t seed);

}  // namespace hyperion::data
