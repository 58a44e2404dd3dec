// The sizes and switches of Llama and its kin.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/models/initial_deviation.h"
#include "hyperion/nn/attention.h"

namespace hyperion::models {

struct LlamaConfig {
  std::string model_type = "llama";  // or "mistral", "qwen2", "qwen3"
  int64_t layers = 4, heads = 4, key_value_heads = 2, head_width = 32, width = 128, inner = 344, context = 128,
          vocabulary = 256;
  double epsilon = 1e-6;
  double init_std = kInitStd;
  double attention_dropout = 0;  // kept for who reads the config; not applied: attention's weights are never held
  bool query_key_value_bias = false, output_bias = false, feed_forward_bias = false;
  bool head_norms = false;  // an RMSNorm over each head of the queries and of the keys, before they turn
  bool tied = false;        // the output's weight is the token table
  nn::RopeConfig rope;
  // How many tokens one of each layer sees, itself included; 0: all before it. Empty: 0 in every layer.
  std::vector<int64_t> windows = {};

  int64_t window_of(int64_t layer) const { return windows.empty() ? 0 : windows[static_cast<size_t>(layer)]; }
  int64_t reach() const;  // the longest sequence: the context, or as far as scaling stretches what was trained
};

}  // namespace hyperion::models
