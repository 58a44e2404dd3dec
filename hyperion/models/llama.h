// Llama 2 and 3 (Touvron et al., 2023), Mistral (Jiang et al., 2023), Qwen2 (Yang et al., 2024) and Qwen3 (Yang et al.,
// 2025): pre-norm decoder with RMSNorm, rotary positions, key and value heads shared by groups of query heads, and a
// gated SiLU feed-forward part. Qwen2 has biases on its queries, keys and values; Qwen3 norms each head's queries and
// keys in their place. All but Llama may have layers that see the last tokens alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/models/model.h"
#include "hyperion/nn/attention.h"

namespace hyperion::models {

struct LlamaConfig {
  std::string model_type = "llama";  // or "mistral", "qwen2", "qwen3"
  int64_t layers = 4, heads = 4, key_value_heads = 2, head_width = 32, width = 128, inner = 344, context = 128,
          vocabulary = 256;
  double epsilon = 1e-6;
  double attention_dropout = 0;  // kept for who reads the config; not applied: attention's weights are never held
  bool query_key_value_bias = false, output_bias = false, feed_forward_bias = false;
  bool head_norms = false;  // an RMSNorm over each head of the queries and of the keys, before they turn
  bool tied = false;        // the output's weight is the token table
  nn::RopeConfig rope;
  // How many tokens one of each layer sees, itself included; 0: all before it. Empty: 0 in every layer.
  std::vector<int64_t> windows = {};

  int64_t window_of(int64_t layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  int64_t reach() const;  // the longest sequence: the context, or as far as dynamic scaling stretches it
};

// As Hugging Face's config.json writes it; from_json throws CorruptError naming `place` on anything that would make
// another function of it than the one here.
std::string to_json(const LlamaConfig& config);
LlamaConfig llama_from_json(const std::string& text, const std::string& place);
LlamaConfig mistral_from_json(const std::string& text, const std::string& place);
LlamaConfig qwen2_from_json(const std::string& text, const std::string& place);
LlamaConfig qwen3_from_json(const std::string& text, const std::string& place);

// Without making it: no memory is taken.
strategy::ModelShape shape_of(const LlamaConfig& config, int64_t length);
// How its parameters may be cut among processes.
std::vector<strategy::CutRule> cuts_of(const LlamaConfig& config);

// Throws ConfigError on a config that contradicts itself.
std::unique_ptr<Model> make_llama(const LlamaConfig& config);

}  // namespace hyperion::models
