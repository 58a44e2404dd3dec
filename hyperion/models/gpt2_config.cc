#include <nlohmann/json.hpp>

#include "hyperion/base/json.h"
#include "hyperion/models/config_reader.h"
#include "hyperion/models/gpt2.h"

namespace hyperion::models {

strategy::ModelShape shape_of(const Gpt2Config& config, int64_t length) {
  const int64_t width = config.width;
  const int64_t inner = config.inner > 0 ? config.inner : 4 * width;
  // Attention's products 3 + 1 and their biases, the feed-forward's two and theirs, and two norms of weight and bias.
  const int64_t block = 4 * width * width + 4 * width + 2 * width * inner + inner + width + 4 * width;
  const int64_t looked_up = (config.context + (config.tied ? 0 : config.vocabulary)) * width;
  const int64_t all = config.vocabulary * width + looked_up + config.layers * block + 2 * width;
  auto shape = strategy::decoder_shape(all, all - looked_up, config.layers, width, config.vocabulary, length);
  shape.context = config.context;
  // A block: two norms' inputs and outputs, queries, keys, values, what attention gives, and both sides of the GELU.
  shape.activations_token =
      static_cast<double>(config.layers * (8 * width + 2 * inner) + 2 * width + config.vocabulary);
  return shape;
}

std::string to_json(const Gpt2Config& config) {
  base::Json json = {{"model_type", "gpt2"},
                     {"n_layer", config.layers},
                     {"n_head", config.heads},
                     {"n_embd", config.width},
                     {"n_positions", config.context},
                     {"vocab_size", config.vocabulary},
                     {"resid_pdrop", config.dropout},
                     {"embd_pdrop", config.embedding_dropout},
                     {"attn_pdrop", config.attention_dropout},
                     {"activation_function", "gelu_new"},
                     {"tie_word_embeddings", config.tied},
                     {"layer_norm_epsilon", config.epsilon},
                     {"bos_token_id", nullptr},
                     {"eos_token_id", nullptr}};
  if (config.inner > 0) json["n_inner"] = config.inner;
  write_init_std(json, config.init_std);
  return json.dump();
}

Gpt2Config gpt2_from_json(const std::string& text, const std::string& place) {
  const base::Json json = base::parse_json(text, place);
  const ConfigReader reader(json, place, "gpt2");
  reader.expect("scale_attn_weights", {true});
  reader.expect("scale_attn_by_inverse_layer_idx", {false});
  reader.expect("add_cross_attention", {false});
  reader.expect("activation_function", {"gelu_new", "gelu_pytorch_tanh"});
  Gpt2Config config;
  config.layers = reader.size("n_layer", kMostLayers);
  config.heads = reader.size("n_head", kMostHeads);
  config.width = reader.size("n_embd", kMostWidth);
  config.context = reader.size("n_positions", kMostContext);
  config.vocabulary = reader.size("vocab_size", kMostVocabulary);
  config.inner = reader.size_or("n_inner", 0, kMostWidth);
  config.dropout = reader.real_or("resid_pdrop", 0.1);
  config.embedding_dropout = reader.real_or("embd_pdrop", 0.1);
  config.attention_dropout = reader.real_or("attn_pdrop", 0.1);
  config.epsilon = reader.real_or("layer_norm_epsilon", 1e-5);
  config.tied = reader.flag_or("tie_word_embeddings", true);
  config.init_std = reader.init_std();
  for (const double p : {config.dropout, config.embedding_dropout, config.attention_dropout})
    reader.check(p >= 0 && p < 1, "resid_pdrop, embd_pdrop and attn_pdrop must lie in [0, 1)");
  reader.check(config.epsilon > 0, "layer_norm_epsilon must be above 0");
  reader.check(config.width % config.heads == 0, "n_head must divide n_embd");
  return config;
}

}  // namespace hyperion::models
