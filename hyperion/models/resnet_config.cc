#include <algorithm>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/models/image_classes.h"
#include "hyperion/models/resnet_plan.h"

namespace hyperion::models {
namespace {

using base::Json;

constexpr size_t kMostStages = 16;

std::vector<int64_t> read_sizes(const Json& json, const ConfigReader& reader, const char* key,
                                std::vector<int64_t> absent, int64_t most) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return absent;
  reader.check(found->is_array() && !found->empty() && found->size() <= kMostStages,
               base::format("{} is not a list of 1 to {} numbers", key, kMostStages));
  std::vector<int64_t> sizes;
  for (const Json& each : *found) {
    reader.check(each.is_number_integer() && each >= 1 && each <= most,
                 base::format("{} holds something else than whole numbers from 1 to {}", key, most));
    sizes.push_back(each.get<int64_t>());
  }
  return sizes;
}

// A stride rounds up, as half a kernel of padding makes it.
int64_t strided(int64_t side, int64_t stride) { return (side + stride - 1) / stride; }

// Parameters, and products an image, of convolutions one after another; `side` goes in and comes out.
struct Cost {
  int64_t parameters = 0;
  double products = 0, kept = 0;
  void add(const Convolution& conv, int64_t& side) {
    side = strided(side, conv.stride);
    const int64_t weight = conv.in * conv.out * conv.kernel * conv.kernel;
    parameters += weight + 2 * conv.out;
    products += static_cast<double>(weight) * static_cast<double>(side * side);
    kept += 2.0 * static_cast<double>(conv.out * side * side);  // what the norm takes in, and what goes on
  }
};

}  // namespace

Convolution stem_of(const ResnetConfig& config) {
  return config.stem == ResnetStem::cifar ? Convolution{config.channels, config.stem_width, 3, 1}
                                          : Convolution{config.channels, config.stem_width, 7, 2};
}

std::vector<ResidualBlock> blocks_of(const ResnetConfig& config, size_t stage) {
  constexpr int64_t kReduction = 4;
  std::vector<ResidualBlock> blocks;
  const int64_t out = config.widths[stage], inner = config.bottleneck ? out / kReduction : out;
  for (int64_t i = 0; i < config.depths[stage]; ++i) {
    const int64_t in = i > 0 ? out : stage > 0 ? config.widths[stage - 1] : config.stem_width;
    const int64_t stride = i == 0 && (stage > 0 || config.downsample_in_first_stage) ? 2 : 1;
    const int64_t first = config.downsample_in_bottleneck ? stride : 1, second = stride / first;
    ResidualBlock block;
    if (config.bottleneck) {
      block.layers = {{in, inner, 1, first}, {inner, inner, 3, second}, {inner, out, 1, 1}};
    } else {
      block.layers = {{in, out, 3, stride}, {out, out, 3, 1}};
    }
    if (in != out || stride != 1) block.shortcut = {{in, out, 1, stride}};
    blocks.push_back(std::move(block));
  }
  return blocks;
}

ResnetConfig resnet_of_depth(int64_t depth) {
  ResnetConfig config;
  config.bottleneck = depth >= 50;
  if (config.bottleneck) config.widths = {256, 512, 1024, 2048};
  if (depth == 18) {
    config.depths = {2, 2, 2, 2};
  } else if (depth == 34 || depth == 50) {
    config.depths = {3, 4, 6, 3};
  } else if (depth == 101) {
    config.depths = {3, 4, 23, 3};
  } else {
    throw base::ConfigError(base::format("there is no ResNet of {} layers here", depth), "use 18, 34, 50 or 101");
  }
  return config;
}

std::string to_json(const ResnetConfig& config) {
  Json json = {{"model_type", "resnet"},
               {"num_channels", config.channels},
               {"image_size", config.image_size},
               {"embedding_size", config.stem_width},
               {"hidden_sizes", config.widths},
               {"depths", config.depths},
               {"layer_type", config.bottleneck ? "bottleneck" : "basic"},
               {"hidden_act", "relu"},
               {"downsample_in_first_stage", config.downsample_in_first_stage},
               {"downsample_in_bottleneck", config.downsample_in_bottleneck}};
  if (config.stem == ResnetStem::cifar) json["hyperion_stem"] = "cifar";
  write_classes(json, config.classes, config.labels);
  return json.dump();
}

ResnetConfig resnet_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "resnet");
  reader.expect("hidden_act", {"relu"});
  reader.expect("layer_type", {"basic", "bottleneck"});
  reader.expect("hyperion_stem", {"cifar"});
  ResnetConfig config;
  config.depths = read_sizes(json, reader, "depths", {3, 4, 6, 3}, kMostLayers);
  config.widths = read_sizes(json, reader, "hidden_sizes", {256, 512, 1024, 2048}, kMostWidth);
  config.stem_width = reader.size_or("embedding_size", 64, kMostWidth);
  config.channels = reader.size_or("num_channels", 3, kMostWidth);
  config.image_size = reader.size_or("image_size", 224, kMostPixels);
  config.bottleneck = reader.text_or("layer_type", "bottleneck") == "bottleneck";
  config.downsample_in_first_stage = reader.flag_or("downsample_in_first_stage", false);
  config.downsample_in_bottleneck = reader.flag_or("downsample_in_bottleneck", false);
  if (reader.text_or("hyperion_stem", "") == "cifar") config.stem = ResnetStem::cifar;
  auto classes = read_classes(reader);
  config.classes = classes.count;
  config.labels = std::move(classes.names);
  reader.check(config.depths.size() == config.widths.size(), "depths and hidden_sizes are not equally long");
  reader.check(!config.bottleneck || *std::min_element(config.widths.begin(), config.widths.end()) >= 4,
               "a bottleneck's hidden_sizes must be 4 or more");
  return config;
}

strategy::ModelShape shape_of(const ResnetConfig& config, int64_t) {
  Cost cost;
  int64_t side = config.image_size;
  cost.add(stem_of(config), side);
  if (config.stem == ResnetStem::imagenet) side = strided(side, 2);
  int64_t layers = 0;
  for (size_t stage = 0; stage < config.depths.size(); ++stage) {
    layers += config.depths[stage];
    for (const auto& block : blocks_of(config, stage)) {
      int64_t beside = side;
      for (const auto& conv : block.layers) cost.add(conv, side);
      for (const auto& conv : block.shortcut) cost.add(conv, beside);
    }
  }
  const int64_t head = config.widths.back() * config.classes;
  auto shape = strategy::image_shape(cost.parameters + head + config.classes, layers, config.widths.back(),
                                     config.classes, cost.products + static_cast<double>(head));
  shape.image = config.image_size;
  shape.activations_token = cost.kept;
  return shape;
}

}  // namespace hyperion::models
