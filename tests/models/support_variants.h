// Small models of every family, in the variants whose parameters or parts differ. Eight heads, so that they can be cut.
#pragma once
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>

#include <string>
#include <vector>

#include "hyperion/models/registry.h"

namespace hyperion::testing {

struct ModelVariant {
  const char *table, *name;  // those of one table share a list of cuts
  std::string config;
  bool adapter = false;
};

inline std::vector<ModelVariant> model_variants() {
  const auto gpt2 = [](const std::string& more) {
    return R"({"model_type": "gpt2", "n_layer": 2, "n_head": 8, "n_embd": 32, "n_positions": 24, "vocab_size": 301,
               "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0)" +
           more + "}";
  };
  const auto decoder = [](const std::string& type, const std::string& more) {
    return R"({"model_type": ")" + type + R"(", "num_hidden_layers": 2, "num_attention_heads": 8,
               "num_key_value_heads": 2, "hidden_size": 32, "head_dim": 4, "max_position_embeddings": 24,
               "vocab_size": 301, )" +
           more + "}";
  };
  const std::string inner = R"("intermediate_size": 48)";
  const std::string experts = R"(, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
      "shared_expert_intermediate_size": 40, "output_router_logits": true, "mlp_only_layers": [0])";
  const std::string vit = R"({"model_type": "vit", "num_hidden_layers": 2, "num_attention_heads": 8, "hidden_size": 32,
      "intermediate_size": 48, "image_size": 16, "patch_size": 8, "num_labels": 7, "hidden_dropout_prob": 0.1)";
  return {
      {"gpt2", "gpt2", gpt2("")},
      {"gpt2", "untied gpt2", gpt2(R"(, "tie_word_embeddings": false)")},
      {"gpt2", "gpt2 with an adapter", gpt2(""), true},
      {"llama", "llama", decoder("llama", inner)},
      {"llama", "tied llama with biases",
       decoder("llama", inner + R"(, "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true)")},
      {"llama", "llama with an adapter", decoder("llama", inner), true},
      {"llama", "mistral", decoder("mistral", inner + R"(, "sliding_window": 3)")},
      {"llama", "qwen2", decoder("qwen2", inner)},
      {"llama", "qwen3", decoder("qwen3", inner)},
      {"mixtral", "mixtral",
       decoder("mixtral",
               inner + R"(, "num_local_experts": 8, "num_experts_per_tok": 2, "output_router_logits": true)")},
      {"qwen2_moe", "qwen2_moe", decoder("qwen2_moe", inner + experts)},
      {"qwen2_moe", "qwen2_moe with an adapter", decoder("qwen2_moe", inner + experts), true},
      {"vit", "vit", vit + "}"},
      {"vit", "vit without biases", vit + R"(, "qkv_bias": false})"},
      {"resnet", "resnet", R"({"model_type": "resnet", "layer_type": "basic", "depths": [1, 2],
                              "hidden_sizes": [8, 16], "embedding_size": 8, "image_size": 16, "num_labels": 7})"},
  };
}

// Every parameter random, biases and norms too, the same for the same variant.
inline std::unique_ptr<models::Model> made(const ModelVariant& variant) {
  auto model = models::make_model(variant.config, variant.name);
  model->initialise(5);
  if (variant.adapter) {
    nn::LoraConfig lora;
    lora.rank = 3;
    model->adapters().add("mine", lora, 5);
  }
  uint64_t seed = 0;
  for (auto& parameter : model->parameters()) {
    auto generator = at::globalContext().defaultGenerator(at::kCPU).clone();
    generator.set_current_seed(++seed);
    parameter.tensor.data().normal_(parameter.tensor.dim() == 1 ? 0.5 : 0, 0.2, generator);
  }
  return model;
}

}  // namespace hyperion::testing
