// ResNet (He et al., 2016) as a classifier of images, laid out channels last: a stem, stages of residual blocks (two
// 3x3 convolutions, or a 3x3 between two 1x1), the mean over all positions, and a linear layer.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/models/model.h"
#include "hyperion/models/resnet_plan.h"

namespace hyperion::models {

// 18, 34, 50 or 101, else a ConfigError.
ResnetConfig resnet_of_depth(int64_t depth);

// As Hugging Face's config.json writes it, with "hyperion_stem" where the stem is not theirs; from_json throws
// CorruptError naming `place` on anything that would make another function of it than the one here.
std::string to_json(const ResnetConfig& config);
ResnetConfig resnet_from_json(const std::string& text, const std::string& place);

// Without making it: no memory is taken. For images of the config's size, whatever the length.
strategy::ModelShape shape_of(const ResnetConfig& config, int64_t length);
// How its parameters may be cut among processes.
std::vector<strategy::CutRule> cuts_of(const ResnetConfig& config);

// Throws ConfigError on a config that contradicts itself.
std::unique_ptr<Model> make_resnet(const ResnetConfig& config);

}  // namespace hyperion::models
