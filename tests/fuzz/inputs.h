// Good input of the readers that are fuzzed, and what to break it with.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/checkpoint/safetensors_header.h"
#include "hyperion/models/registry.h"

namespace hyperion::testing {

// A config.json of every family.
inline const std::vector<std::string>& good_configs() {
  static const std::string sizes =
      R"("num_hidden_layers": 3, "num_attention_heads": 6, "hidden_size": 36, "intermediate_size": 50)";
  static const std::string decoder =
      sizes + R"(, "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 89, "hidden_act": "silu",
      "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "bos_token_id": null, "eos_token_id": [1, 2], "dtype": "float32")";
  static const std::vector<std::string> list = {
      R"({"model_type": "gpt2", "n_layer": 3, "n_head": 3, "n_embd": 36, "n_positions": 41, "vocab_size": 97,
      "n_inner": null, "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-05, "activation_function": "gelu_new",
      "tie_word_embeddings": true, "architectures": ["GPT2LMHeadModel"]})",
      R"({"model_type": "llama", "attention_bias": false, "mlp_bias": false, "head_dim": 16, "rope_parameters":
      {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
      "original_max_position_embeddings": 100}, )" +
          decoder + "}",
      R"({"model_type": "llama", "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 2.0}, )" +
          decoder + "}",
      R"({"model_type": "qwen2", "use_sliding_window": false, )" + decoder + "}",
      R"({"model_type": "mistral", "sliding_window": 16, "head_dim": 8, "rope_parameters": {"rope_type": "dynamic",
      "rope_theta": 10000.0, "factor": 2.0}, )" +
          decoder + "}",
      R"({"model_type": "qwen3", "head_dim": 16, "attention_bias": false, "use_sliding_window": true,
      "sliding_window": 16, "max_window_layers": 1, "layer_types": ["full_attention", "sliding_attention",
      "full_attention"], "rope_parameters": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 32,
      "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.5, "truncate": true, "original_max_position_embeddings": 16}, )" +
          decoder + "}",
      R"({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "router_aux_loss_coef": 0.02, )" +
          decoder + "}",
      R"({"model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
      "shared_expert_intermediate_size": 30, "norm_topk_prob": false, "decoder_sparse_step": 1, "mlp_only_layers": [], )" +
          decoder + "}",
      R"({"model_type": "vit", "image_size": 32, "patch_size": 8, "num_channels": 3, "hidden_act": "gelu",
      "layer_norm_eps": 1e-12, "qkv_bias": true, "id2label": {"0": "a", "1": "b"}, "label2id": {"a": 0, "b": 1}, )" +
          sizes + "}",
      R"({"model_type": "resnet", "embedding_size": 64, "hidden_sizes": [256, 512, 1024, 2048], "depths": [3, 4, 6, 3],
      "layer_type": "bottleneck", "hidden_act": "relu", "num_channels": 3, "downsample_in_first_stage": false,
      "id2label": {"0": "a", "1": "b"}})"};
  return list;
}

inline std::string good_safetensors() {
  checkpoint::Header header;
  uint64_t reached = 0;
  const auto add = [&](const std::string& name, const std::string& type, std::vector<int64_t> shape, uint64_t bytes) {
    size_t index = 0;
    while (checkpoint::tensor_types()[index].name != type) ++index;
    header.entries.push_back({name, index, std::move(shape), reached, reached + bytes});
    reached += bytes;
  };
  add("h.0.attn.weight", "F32", {17, 5}, 340);
  add("h.0.attn.bias", "BF16", {13}, 26);
  add("none", "F16", {0, 4}, 0);
  add("mask", "BOOL", {3, 1, 3}, 9);
  header.metadata = {{"format", "pt"}, {"note", "fuzz"}};
  return checkpoint::header_text(header) + std::string(reached, '\1');
}

// JSON's own words, the edges of its numbers, and what is no JSON.
inline const std::vector<std::string>& words() {
  static const std::vector<std::string> list = {"{",
                                                "}",
                                                "[",
                                                "]",
                                                "\"",
                                                ",",
                                                ":",
                                                "0",
                                                "-1",
                                                "1e9",
                                                "1e999",
                                                "1.5",
                                                "null",
                                                "true",
                                                "[]",
                                                "{}",
                                                "\"\"",
                                                "\\u0000",
                                                "\\ud800",
                                                "\xff",
                                                std::string(1, '\0'),
                                                "9223372036854775807",
                                                "9223372036854775808",
                                                "18446744073709551616",
                                                "4294967296",
                                                "16777216",
                                                "1024",
                                                " ",
                                                "\n",
                                                "\"model_type\": \"vit\"",
                                                "\"shape\":",
                                                "\"dtype\":\"F64\"",
                                                std::string(300, '['),
                                                "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"};
  return list;
}

// Whether the reader took the text. A CorruptError means it did not; anything else is thrown on.
inline bool reads_config(const std::string& text) {
  try {
    models::config_shape(text, "config.json", 16);
    return true;
  } catch (const base::CorruptError&) {
    return false;
  }
}

inline bool reads_safetensors(std::string_view file) {
  try {
    checkpoint::parse_header(file, "x.safetensors");
    return true;
  } catch (const base::CorruptError&) {
    return false;
  }
}

}  // namespace hyperion::testing
