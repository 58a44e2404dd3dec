// Which convolutions a ResNet has: the one list that the model is made of and its cost is reckoned by. For sources of
// this folder.
#pragma once
#include <vector>

#include "hyperion/models/resnet.h"

namespace hyperion::models {

struct Convolution {
  int64_t in, out, kernel, stride;
};

Convolution stem_of(const ResnetConfig& config);

struct ResidualBlock {
  std::vector<Convolution> layers;
  std::vector<Convolution> shortcut;  // one where the block changes the shape, else none
};

// The blocks of a stage.
std::vector<ResidualBlock> blocks_of(const ResnetConfig& config, size_t stage);

}  // namespace hyperion::models
