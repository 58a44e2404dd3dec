// Where images come from: each has a label and is found by its index alone.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

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

}  // namespace hyperion::data
