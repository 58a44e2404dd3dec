#include <algorithm>

#include "hyperion/base/format.h"
#include "hyperion/models/decoder_fields.h"

namespace hyperion::models {
namespace {

using base::Json;

constexpr int64_t kUnsaidWindow = 4096;      // where the file has no sliding_window
constexpr int64_t kUnsaidWindowLayers = 28;  // where the file has no max_window_layers

const char* layer_type(int64_t window) { return window > 0 ? "sliding_attention" : "full_attention"; }

std::vector<std::string> layer_types(const LlamaConfig& config) {
  std::vector<std::string> types;
  for (int64_t layer = 0; layer < config.layers; ++layer) types.emplace_back(layer_type(config.window_of(layer)));
  return types;
}

int64_t widest(const LlamaConfig& config) {
  return config.windows.empty() ? 0 : *std::max_element(config.windows.begin(), config.windows.end());
}

}  // namespace

void read_window(const ConfigReader& reader, int64_t absent, LlamaConfig& config) {
  const int64_t window = reader.size_or("sliding_window", reader.has("sliding_window") ? 0 : absent, kMostContext);
  if (window > 0) config.windows.assign(static_cast<size_t>(config.layers), window);
  reader.expect("layer_types", {layer_types(config)});
}

void read_layer_windows(const ConfigReader& reader, bool (*slides)(int64_t layer, int64_t bound), LlamaConfig& config) {
  int64_t window = 0, bound = 0;
  if (reader.flag_or("use_sliding_window", false)) {
    window = reader.size_or("sliding_window", reader.has("sliding_window") ? 0 : kUnsaidWindow, kMostContext);
    bound = reader.size_or("max_window_layers", kUnsaidWindowLayers, kMostLayers, /*least=*/0);
  }
  const auto types = reader.texts("layer_types", config.layers);
  std::vector<int64_t> windows;
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string type =
        types.empty() ? layer_type(slides(layer, bound) ? window : 0) : types[static_cast<size_t>(layer)];
    reader.check(type == "full_attention" || type == "sliding_attention",
                 base::format("layer_types has \"{}\", which is not known here", type));
    reader.check(type == "full_attention" || window > 0,
                 "layer_types has \"sliding_attention\", and use_sliding_window and sliding_window give no window");
    windows.push_back(type == "full_attention" ? 0 : window);
  }
  if (std::any_of(windows.begin(), windows.end(), [](int64_t each) { return each > 0; })) config.windows = windows;
}

Json window_json(const LlamaConfig& config) {
  const int64_t window = widest(config);
  return window > 0 ? Json(window) : Json();
}

void write_layer_windows(const LlamaConfig& config, Json& json) {
  if (config.windows.empty()) return;
  json["use_sliding_window"] = true;
  json["sliding_window"] = window_json(config);
  json["layer_types"] = layer_types(config);
}

}  // namespace hyperion::models
