#include <nlohmann/json.hpp>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/models/gpt2.h"

namespace hyperion::models {

void describe(base::Settings& settings, Gpt2Config& config) {
  settings.section("model", "a GPT-2 style decoder")
      .integer("layers", config.layers, {1, 1024}, "transformer blocks")
      .integer("heads", config.heads, {1, 1024}, "attention heads; must divide the width")
      .integer("width", config.width, {8, 65536}, "hidden width")
      .integer("context", config.context, {8, 1 << 20}, "longest sequence", "tokens")
      .integer("vocabulary", config.vocabulary, {256, 1 << 20}, "token ids; 256 for bytes")
      .real("dropout", config.dropout, {0, 0.9}, "probability of dropping an activation in training");
}

void check(const Gpt2Config& config) {
  if (config.width % config.heads != 0)
    throw base::ConfigError(
        base::format("model.heads = {} does not divide model.width = {}", config.heads, config.width),
        "choose a width that is a multiple of the heads, usually 64 a head");
}

strategy::ModelShape shape_of(const Gpt2Config& config, int64_t length) {
  const int64_t width = config.width;
  // Products 3 + 1 + 4 + 4 and their biases 3 + 1 + 4 + 1, and two norms of weight and bias.
  const int64_t block = 12 * width * width + 13 * width;
  const int64_t positions = config.context * width;
  const int64_t all = config.vocabulary * width + positions + config.layers * block + 2 * width;
  return strategy::decoder_shape(all, all - positions, config.layers, width, config.vocabulary, length);
}

std::string to_json(const Gpt2Config& config) {
  return base::Json{{"model_type", "gpt2"},
                    {"n_layer", config.layers},
                    {"n_head", config.heads},
                    {"n_embd", config.width},
                    {"n_positions", config.context},
                    {"vocab_size", config.vocabulary},
                    {"resid_pdrop", config.dropout},
                    {"embd_pdrop", config.dropout},
                    {"attn_pdrop", 0.0},
                    {"activation_function", "gelu_new"},
                    {"tie_word_embeddings", true}}
      .dump();
}

Gpt2Config gpt2_from_json(const std::string& text, const std::string& place) {
  const base::Json json = base::parse_json(text, place);
  try {
    if (json.at("model_type") != "gpt2")
      throw base::CorruptError(base::format("{}: model_type {} is not known here", place, json.at("model_type").dump()),
                               "this version knows gpt2");
    Gpt2Config config;
    config.layers = json.at("n_layer").get<int64_t>();
    config.heads = json.at("n_head").get<int64_t>();
    config.width = json.at("n_embd").get<int64_t>();
    config.context = json.at("n_positions").get<int64_t>();
    config.vocabulary = json.at("vocab_size").get<int64_t>();
    config.dropout = json.value("resid_pdrop", 0.0);
    // The same ranges as a recipe's, before any memory is taken.
    base::Settings settings;
    Gpt2Config checked;
    describe(settings, checked);
    settings.set("model.layers", std::to_string(config.layers), place);
    settings.set("model.heads", std::to_string(config.heads), place);
    settings.set("model.width", std::to_string(config.width), place);
    settings.set("model.context", std::to_string(config.context), place);
    settings.set("model.vocabulary", std::to_string(config.vocabulary), place);
    check(config);
    return config;
  } catch (const base::Json::exception& error) {
    throw base::CorruptError(base::format("{} is not a GPT-2 config: {}", place, error.what()));
  }
}

}  // namespace hyperion::models
