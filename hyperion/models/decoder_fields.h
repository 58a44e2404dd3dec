// The fields of a config.json that Llama's kin share. For sources of this folder: it needs nlohmann/json.hpp.
#pragma once
#include "hyperion/models/config_reader.h"
#include "hyperion/models/llama.h"

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

// What the feed-forward parts of all layers have together.
struct FeedForwardCost {
  int64_t parameters, used;  // used: for one token
  int64_t activations;       // elements a token leaves for the backward
};
strategy::ModelShape decoder_shape(const LlamaConfig& config, const FeedForwardCost& cost, int64_t length);

}  // namespace hyperion::models
