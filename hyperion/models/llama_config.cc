#include "hyperion/models/decoder_fields.h"
#include "hyperion/models/llama.h"

namespace hyperion::models {

using base::Json;

std::string to_json(const LlamaConfig& config) {
  Json json = decoder_json(config);
  if (config.model_type == "llama") {
    json["attention_bias"] = config.query_key_value_bias;
    json["mlp_bias"] = config.feed_forward_bias;
  }
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

LlamaConfig qwen2_from_json(const std::string& text, const std::string& place) {
  const Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "qwen2");
  reader.expect("use_sliding_window", {false});
  LlamaConfig config = read_decoder(reader);
  config.model_type = "qwen2";
  config.query_key_value_bias = true;
  return config;
}

strategy::ModelShape shape_of(const LlamaConfig& config, int64_t length) {
  int64_t part = 3 * config.width * config.inner;
  if (config.feed_forward_bias) part += 2 * config.inner + config.width;
  return decoder_shape(config, {config.layers * part, config.layers * part, config.layers * 4 * config.inner}, length);
}

}  // namespace hyperion::models
