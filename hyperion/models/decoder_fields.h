// The fields of a config.json that Llama's kin share. For sources of this folder: it needs nlohmann/json.hpp.
#pragma once
#include "hyperion/models/config_reader.h"
#include "hyperion/models/decoder_config.h"
#include "hyperion/strategy/model_shape.h"

namespace hyperion::models {

// What `transformers` takes in this family where the file says nothing.
struct DecoderDefaults {
  double theta = 10000, epsilon = 1e-6;
  int64_t key_value_heads = 0;  // 0: as many as heads
  int64_t head_width = 0;       // 0: the width over the heads
};

// All of it but model_type and the biases.
LlamaConfig read_decoder(const ConfigReader& reader, const DecoderDefaults& defaults = {});
base::Json decoder_json(const LlamaConfig& config);

// Rotary positions of a decoder whose context and head width are read already; null where nothing is scaled.
nn::RopeConfig read_rope(const ConfigReader& reader, const LlamaConfig& config, double theta);
base::Json rope_json(const nn::RopeConfig& rope);

// Attention's windows of a decoder whose layers are read already. Mistral's way: one sliding_window for all layers,
// `absent` where the file has none, null for no window. Qwen's way: layer_types, else the layers that `slides` picks by
// max_window_layers, and only with use_sliding_window.
void read_window(const ConfigReader& reader, int64_t absent, LlamaConfig& config);
void read_layer_windows(const ConfigReader& reader, bool (*slides)(int64_t layer, int64_t bound), LlamaConfig& config);
base::Json window_json(const LlamaConfig& config);                      // sliding_window
void write_layer_windows(const LlamaConfig& config, base::Json& json);  // nothing where there is no window

// What the feed-forward parts of all layers have together.
struct FeedForwardCost {
  int64_t parameters, used;  // used: for one token
  int64_t activations;       // elements a token leaves for the backward
};
strategy::ModelShape decoder_shape(const LlamaConfig& config, const FeedForwardCost& cost, int64_t length);

}  // namespace hyperion::models
