// A ResNet's sizes and switches, and which convolutions it has: the one list that the model is made of and its cost is
// reckoned by.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace hyperion::models {

enum class ResnetStem {
  imagenet,  // 7x7 of stride 2, then the maximum of 3x3 of stride 2
  cifar      // 3x3 of stride 1; Hugging Face has no such model
};

struct ResnetConfig {
  std::vector<int64_t> depths = {2, 2, 2, 2}, widths = {64, 128, 256, 512};  // a stage: its blocks, its channels
  int64_t stem_width = 64, channels = 3, classes = 10;
  int64_t image_size = 32;  // pixels of a side; images of any size are taken, this one is reckoned with
  bool bottleneck = false;  // three convolutions a block: ResNet-50 and deeper
  bool downsample_in_first_stage = false;
  bool downsample_in_bottleneck = false;  // the stride lies in the first 1x1 of a block, not in its 3x3
  ResnetStem stem = ResnetStem::imagenet;
  std::vector<std::string> labels;  // the classes' names; empty: none
};

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
