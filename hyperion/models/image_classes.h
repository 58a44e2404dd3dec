// What the classifiers of images share: their classes in config.json, and what they take. Heavy: for sources.
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "hyperion/models/config_reader.h"

namespace hyperion::models {

constexpr int64_t kMostPixels = 1 << 16;  // of a side

struct ImageClasses {
  int64_t count = 0;
  std::vector<std::string> names;  // by class; empty: they have none
};

// From id2label, else num_labels, else the 2 that transformers leaves out. One class would be a regression: refused.
ImageClasses read_classes(const ConfigReader& reader);
// Sets id2label and label2id; classes without names are LABEL_0 and so on. Throws ConfigError where the names are not
// as many as the classes.
void write_classes(base::Json& json, int64_t count, const std::vector<std::string>& names);

// Throws ConfigError unless these are [batch, channels, height, width] with sides of at least `height` and `width`.
void check_images(const at::Tensor& images, int64_t channels, int64_t height, int64_t width);

}  // namespace hyperion::models
