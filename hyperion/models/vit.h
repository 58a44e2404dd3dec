// ViT (Dosovitskiy et al., 2021), as a classifier of images: patches and a class token through a pre-norm encoder,
// learned positions, exact GELU, no pooler. Images of another size than the config's are taken too: the positions are
// then resampled bicubically to their grid.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/models/initial_deviation.h"
#include "hyperion/models/model.h"

namespace hyperion::models {

struct VitConfig {
  int64_t layers = 4, heads = 4, width = 64, inner = 256, channels = 3, classes = 10;
  int64_t image_height = 32, image_width = 32, patch_height = 4, patch_width = 4;  // pixels
  double dropout = 0, attention_dropout = 0, epsilon = 1e-12;
  double init_std = kInitStd;
  bool query_key_value_bias = true;
  std::vector<std::string> labels;  // the classes' names; empty: none
};

// As Hugging Face's config.json writes it; from_json throws CorruptError naming `place` on anything that would make
// another function of it than the one here.
std::string to_json(const VitConfig& config);
VitConfig vit_from_json(const std::string& text, const std::string& place);

// Without making it: no memory is taken. For images of the config's size, whatever the length.
int64_t tokens_of(const VitConfig& config);  // of an image: its patches, and the one that is classified
strategy::ModelShape shape_of(const VitConfig& config, int64_t length);
// How its parameters may be cut among processes.
std::vector<strategy::CutRule> cuts_of(const VitConfig& config);

// Throws ConfigError on a config that contradicts itself.
std::unique_ptr<Model> make_vit(const VitConfig& config);

}  // namespace hyperion::models
