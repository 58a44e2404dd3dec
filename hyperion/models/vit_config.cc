#include <nlohmann/json.hpp>

#include "hyperion/base/json.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/vit.h"

namespace hyperion::models {
namespace {

using base::Json;

struct Sides {
  int64_t height, width;
};

// One number, or [height, width].
Sides read_sides(const Json& json, const ConfigReader& reader, const char* key, int64_t absent) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) {
    const int64_t side = reader.size_or(key, absent, kMostPixels);
    return {side, side};
  }
  const auto good = [](const Json& side) { return side.is_number_integer() && side >= 1 && side <= kMostPixels; };
  reader.check(found->size() == 2 && good((*found)[0]) && good((*found)[1]),
               std::string(key) + " is neither a number of pixels nor two of them");
  return {(*found)[0].get<int64_t>(), (*found)[1].get<int64_t>()};
}

Json sides_json(int64_t height, int64_t width) { return height == width ? Json(height) : Json::array({height, width}); }

}  // namespace

std::string to_json(const VitConfig& config) {
  Json json = {{"model_type", "vit"},
               {"num_hidden_layers", config.layers},
               {"num_attention_heads", config.heads},
               {"hidden_size", config.width},
               {"intermediate_size", config.inner},
               {"num_channels", config.channels},
               {"image_size", sides_json(config.image_height, config.image_width)},
               {"patch_size", sides_json(config.patch_height, config.patch_width)},
               {"hidden_act", "gelu"},
               {"hidden_dropout_prob", config.dropout},
               {"attention_probs_dropout_prob", config.attention_dropout},
               {"layer_norm_eps", config.epsilon},
               {"qkv_bias", config.query_key_value_bias}};
  write_init_std(json, config.init_std);
  write_classes(json, config.classes, config.labels);
  return json.dump();
}

VitConfig vit_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "vit");
  reader.expect("hidden_act", {"gelu"});
  VitConfig config;
  config.layers = reader.size_or("num_hidden_layers", 12, kMostLayers);
  config.heads = reader.size_or("num_attention_heads", 12, kMostHeads);
  config.width = reader.size_or("hidden_size", 768, kMostWidth);
  config.inner = reader.size_or("intermediate_size", 3072, kMostWidth);
  config.channels = reader.size_or("num_channels", 3, kMostWidth);
  const auto image = read_sides(json, reader, "image_size", 224), patch = read_sides(json, reader, "patch_size", 16);
  config.image_height = image.height, config.image_width = image.width;
  config.patch_height = patch.height, config.patch_width = patch.width;
  config.dropout = reader.real_or("hidden_dropout_prob", 0);
  config.attention_dropout = reader.real_or("attention_probs_dropout_prob", 0);
  config.epsilon = reader.real_or("layer_norm_eps", 1e-12);
  config.query_key_value_bias = reader.flag_or("qkv_bias", true);
  config.init_std = reader.init_std();
  auto classes = read_classes(reader);
  config.classes = classes.count;
  config.labels = std::move(classes.names);
  reader.check(config.width % config.heads == 0, "num_attention_heads must divide hidden_size");
  reader.expect("head_dim", {config.width / config.heads});
  reader.check(patch.height <= image.height && patch.width <= image.width, "patch_size is larger than image_size");
  for (const double p : {config.dropout, config.attention_dropout})
    reader.check(p >= 0 && p < 1, "a dropout's probability must lie in [0, 1)");
  reader.check(config.epsilon > 0, "layer_norm_eps must be above 0");
  return config;
}

int64_t tokens_of(const VitConfig& config) {
  return (config.image_height / config.patch_height) * (config.image_width / config.patch_width) + 1;
}

strategy::ModelShape shape_of(const VitConfig& config, int64_t) {
  const int64_t width = config.width, inner = config.inner;
  const int64_t products = 4 * width * width + 2 * width * inner;  // of a token in a block
  // Beside the products: the biases of the two projections' outputs and of the feed-forward's, and two norms.
  const int64_t block = products + (config.query_key_value_bias ? 4 : 1) * width + inner + width + 4 * width;
  const int64_t patch = config.channels * config.patch_height * config.patch_width * width;
  const int64_t tokens = tokens_of(config), patches = tokens - 1;
  const int64_t head = width * config.classes;
  const int64_t all =
      patch + width + width + tokens * width + config.layers * block + 2 * width + head + config.classes;
  // Scores and weighted values: two products of width * tokens a token and layer.
  const double attention = static_cast<double>(config.layers * tokens) * static_cast<double>(2 * width * tokens);
  const double weights = static_cast<double>(config.layers * tokens) * static_cast<double>(products);
  auto shape = strategy::image_shape(all, config.layers, width, config.classes,
                                     attention + weights + static_cast<double>(patches * patch + head), attention);
  shape.image = config.image_height;
  // A token of a block: two norms' inputs and outputs, queries, keys, values, what attention gives, and both sides of
  // the GELU.
  shape.activations_token = static_cast<double>(tokens * (config.layers * (8 * width + 2 * inner) + 2 * width));
  return shape;
}

}  // namespace hyperion::models
