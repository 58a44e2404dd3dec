#include "hyperion/models/decoder_fields.h"
#include "hyperion/models/llama.h"

namespace hyperion::models {

using base::Json;

namespace {

bool from_bound_on(int64_t layer, int64_t bound) { return layer >= bound; }

}  // namespace

std::string to_json(const LlamaConfig& config) {
  Json json = decoder_json(config);
  if (config.model_type == "llama") {
    json["attention_bias"] = config.query_key_value_bias;
    json["mlp_bias"] = config.feed_forward_bias;
  }
  if (config.model_type == "qwen3") json["attention_bias"] = config.query_key_value_bias;
  if (config.model_type == "mistral") json["sliding_window"] = window_json(config);
  if (config.model_type == "qwen2" || config.model_type == "qwen3") write_layer_windows(config, json);
  return json.dump();
}

LlamaConfig llama_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "llama");
  LlamaConfig config = read_decoder(reader);
  config.query_key_value_bias = config.output_bias = reader.flag_or("attention_bias", false);
  config.feed_forward_bias = reader.flag_or("mlp_bias", false);
  return config;
}

LlamaConfig mistral_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "mistral");
  LlamaConfig config = read_decoder(reader, {.key_value_heads = 8});
  read_window(reader, /*absent=*/4096, config);
  config.model_type = "mistral";
  return config;
}

LlamaConfig qwen2_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "qwen2");
  LlamaConfig config = read_decoder(reader);
  read_layer_windows(reader, from_bound_on, config);
  config.model_type = "qwen2";
  config.query_key_value_bias = true;
  return config;
}

LlamaConfig qwen3_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "qwen3");
  LlamaConfig config = read_decoder(reader, {.key_value_heads = 32, .head_width = 128});
  read_layer_windows(reader, from_bound_on, config);
  config.model_type = "qwen3";
  config.query_key_value_bias = config.output_bias = reader.flag_or("attention_bias", false);
  config.head_norms = true;
  return config;
}

strategy::ModelShape shape_of(const LlamaConfig& config, int64_t length) {
  int64_t part = 3 * config.width * config.inner;
  if (config.feed_forward_bias) part += 2 * config.inner + config.width;
  return decoder_shape(config, {config.layers * part, config.layers * part, config.layers * 4 * config.inner}, length);
}

}  // namespace hyperion::models
