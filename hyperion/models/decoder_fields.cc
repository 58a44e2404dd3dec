#include "hyperion/models/decoder_fields.h"

namespace hyperion::models {

using base::Json;

namespace {

// Of causal attention over `length` tokens, as many for a token on average.
double mean_keys(int64_t window, int64_t length) {
  const auto all = static_cast<double>(length), some = static_cast<double>(window);
  return window == 0 || window >= length ? all / 2 : some - some * some / (2 * all);
}

}  // namespace

LlamaConfig read_decoder(const ConfigReader& reader, const DecoderDefaults& defaults) {
  reader.expect("hidden_act", {"silu"});
  LlamaConfig config;
  config.layers = reader.size("num_hidden_layers", kMostLayers);
  config.heads = reader.size("num_attention_heads", kMostHeads);
  const bool known = defaults.key_value_heads > 0 && !reader.has("num_key_value_heads");
  config.key_value_heads =
      reader.size_or("num_key_value_heads", known ? defaults.key_value_heads : config.heads, kMostHeads);
  config.width = reader.size("hidden_size", kMostWidth);
  config.inner = reader.size("intermediate_size", kMostWidth);
  config.context = reader.size("max_position_embeddings", kMostContext);
  config.vocabulary = reader.size("vocab_size", kMostVocabulary);
  config.head_width = reader.size_or("head_dim", defaults.head_width, kMostWidth);
  if (config.head_width == 0) {
    reader.check(config.width % config.heads == 0,
                 "num_attention_heads must divide hidden_size where head_dim is not given");
    config.head_width = config.width / config.heads;
  }
  config.epsilon = reader.real_or("rms_norm_eps", defaults.epsilon);
  config.init_std = reader.init_std();
  config.tied = reader.flag_or("tie_word_embeddings", false);
  config.attention_dropout = reader.real_or("attention_dropout", 0);
  reader.check(config.attention_dropout >= 0 && config.attention_dropout < 1, "attention_dropout must lie in [0, 1)");
  config.rope = read_rope(reader, config, defaults.theta);
  reader.check(config.heads % config.key_value_heads == 0, "num_key_value_heads must divide num_attention_heads");
  reader.check(config.head_width % 2 == 0, "a head's width must be even");
  reader.check(config.epsilon > 0, "rms_norm_eps must be above 0");
  return config;
}

Json decoder_json(const LlamaConfig& config) {
  Json json = {{"model_type", config.model_type},
               {"num_hidden_layers", config.layers},
               {"num_attention_heads", config.heads},
               {"num_key_value_heads", config.key_value_heads},
               {"hidden_size", config.width},
               {"intermediate_size", config.inner},
               {"max_position_embeddings", config.context},
               {"vocab_size", config.vocabulary},
               {"hidden_act", "silu"},
               {"rms_norm_eps", config.epsilon},
               {"tie_word_embeddings", config.tied},
               {"attention_dropout", config.attention_dropout},
               {"rope_theta", config.rope.theta},
               {"rope_scaling", rope_json(config.rope)},
               {"head_dim", config.head_width},
               {"bos_token_id", nullptr},
               {"eos_token_id", nullptr}};
  write_init_std(json, config.init_std);
  return json;
}

strategy::ModelShape decoder_shape(const LlamaConfig& config, const FeedForwardCost& cost, int64_t length) {
  const int64_t queries = config.heads * config.head_width, keys = config.key_value_heads * config.head_width;
  int64_t block = 2 * config.width * (queries + keys) + 2 * config.width;
  if (config.query_key_value_bias) block += queries + 2 * keys;
  if (config.output_bias) block += config.width;
  if (config.head_norms) block += 2 * config.head_width;
  const int64_t table = config.vocabulary * config.width;
  const int64_t rest = config.layers * block + config.width + table;
  auto shape = strategy::decoder_shape(rest + cost.parameters + (config.tied ? 0 : table), rest + cost.used,
                                       config.layers, queries, config.vocabulary, length);
  shape.width = config.width;  // attention's cost goes by the heads' widths together
  shape.context = config.reach();
  if (!config.windows.empty()) {
    double seen = 0;  // keys that a token meets on its way through all layers
    for (const int64_t window : config.windows) seen += mean_keys(window, length);
    shape.forward_flops_token = shape.weight_flops_token + 4 * static_cast<double>(queries) * seen;
    shape.backward_flops_token = 2 * shape.forward_flops_token;
  }
  // Beside the feed-forward parts: two norms' inputs and outputs, queries, keys, values, and what attention gives;
  // where heads have norms, also those norms' inputs.
  const int64_t attention = 2 * queries + 2 * keys + (config.head_norms ? queries + keys : 0);
  shape.activations_token = static_cast<double>(config.layers * (4 * config.width + attention) + cost.activations +
                                                2 * config.width + config.vocabulary);
  return shape;
}

}  // namespace hyperion::models
