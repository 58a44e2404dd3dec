// The models that recipes/experiments start from, in their real sizes: what their config.json says, and how many
// parameters a dry run counts.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace hyperion::testing {

// By their names on the hub.
inline std::vector<std::pair<std::string, std::string>> full_configs() {
  const std::string vit =
      R"(, "architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_act": "gelu",
      "image_size": 224, "num_channels": 3, "qkv_bias": true, "layer_norm_eps": 1e-12, "initializer_range": 0.02,
      "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})";
  return {{"meta-llama/Llama-2-7b-hf",
           R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
           "intermediate_size": 11008, "max_position_embeddings": 4096, "num_attention_heads": 32,
           "num_hidden_layers": 32, "num_key_value_heads": 32, "rms_norm_eps": 1e-05, "vocab_size": 32000,
           "tie_word_embeddings": false, "initializer_range": 0.02, "bos_token_id": 1, "eos_token_id": 2})"},
          {"Qwen/Qwen2.5-3B-Instruct",
           R"({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 2048,
           "intermediate_size": 11008, "max_position_embeddings": 32768, "num_attention_heads": 16,
           "num_hidden_layers": 36, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
           "vocab_size": 151936, "tie_word_embeddings": true, "initializer_range": 0.02, "use_sliding_window": false,
           "max_window_layers": 70, "sliding_window": 32768, "attention_dropout": 0.0, "eos_token_id": 151645})"},
          {"Qwen/Qwen1.5-MoE-A2.7B-Chat",
           R"({"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "hidden_act": "silu",
           "hidden_size": 2048, "intermediate_size": 5632, "max_position_embeddings": 8192, "num_attention_heads": 16,
           "num_hidden_layers": 24, "num_key_value_heads": 16, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
           "vocab_size": 151936, "tie_word_embeddings": false, "initializer_range": 0.02, "use_sliding_window": false,
           "max_window_layers": 21, "sliding_window": 32768, "attention_dropout": 0.0, "num_experts": 60,
           "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632,
           "norm_topk_prob": false, "decoder_sparse_step": 1, "router_aux_loss_coef": 0.001,
           "output_router_logits": false, "eos_token_id": 151643})"},
          {"openai-community/gpt2-large", "{}"},  // of which the tokenizer alone is used
          {"google/vit-base-patch16-224",
           R"({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
           "patch_size": 16)" +
               vit},
          {"google/vit-huge-patch14-224-in21k",
           R"({"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 16,
           "patch_size": 14)" +
               vit}};
}

struct FullForm {
  std::string recipe;
  std::vector<std::string> flags;
  std::string parameters;
};
inline std::vector<FullForm> full_forms() {
  const std::vector<std::string> medium = {
      "--model.preset", "tinyllama-medium", "--train.length", "512", "--train.batch", "16"};
  return {{"wikitext2-transformer", {}, "19,177,472"},
          {"cifar10-resnet18", {}, "11,173,962"},
          {"cifar10-resnet50", {"--zero", "3"}, "23,528,522"},
          {"cifar10-vit", {}, "10,695,562"},
          {"llama2-lora-zero3", {}, "6,738,415,616"},
          {"vit-base-lora-cifar100", {}, "85,800,194"},
          {"vit-base-lora-food101", {}, "85,800,194"},
          {"vit-huge", {}, "630,767,362"},
          {"vit-huge", {"--zero", "3"}, "630,767,362"},
          {"vit-huge", {"--zero", "3", "--zeropp", "weights,secondary,grads"}, "630,767,362"},
          {"qwen3b-metamath-1d", {}, "3,085,938,688"},
          {"qwen-moe-metamath-5d", {"--parallel", "pp=2,dp=2,tp=2,ep=2"}, "14,315,784,192"},
          {"gpt2-large-wikitext103", {}, "774,030,080"},
          {"gpt2-large-wikitext103", {"--zero", "3"}, "774,030,080"},
          {"gpt2-large-scaling", {}, "774,030,080"},
          {"tinyllama", {}, "32,489,984"},
          {"tinyllama", medium, "190,817,280"}};
}

}  // namespace hyperion::testing
