// Mixtures of experts on Llama's decoder: Mixtral (Jiang et al., 2024) and Qwen2-MoE (Yang et al., 2024). Qwen2-MoE has
// a shared expert beside the routed ones, biases on queries, keys and values, and may keep some layers dense.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/models/llama.h"

namespace hyperion::models {

struct MoeConfig {
  LlamaConfig decoder{.model_type = "mixtral", .rope = {}};  // or "qwen2_moe"; its inner is that of dense layers
  int64_t experts = 8, choices = 2;                          // in a sparse layer; of each token
  int64_t expert_inner = 344;
  int64_t shared_inner = 0;            // of the shared expert; 0 in Mixtral, above 0 in Qwen2-MoE
  bool normalised = true;              // a token's weights sum to 1; always so in Mixtral
  int64_t sparse_step = 1;             // every so manieth layer is sparse ...
  std::vector<int64_t> dense_layers;   // ... but these
  bool balance = false;                // the auxiliary loss has the balance loss in it (output_router_logits)
  double balance_coefficient = 0.001;  // router_aux_loss_coef
  double z_coefficient = 0;            // above 0: the z-loss too; router_z_loss_coef, a field of our own
  double capacity_factor = 0;  // 0: no token is ever dropped (see nn/experts.h); expert_capacity_factor, our own

  bool sparse(int64_t layer) const;
};

// As Hugging Face's config.json writes it; from_json throws CorruptError naming `place` on anything that would make
// another function of it than the one here.
std::string to_json(const MoeConfig& config);
MoeConfig mixtral_from_json(const std::string& text, const std::string& place);
MoeConfig qwen2_moe_from_json(const std::string& text, const std::string& place);

// Without making it: no memory is taken. Operations a token are those of the experts it is sent to.
strategy::ModelShape shape_of(const MoeConfig& config, int64_t length);
// How its parameters may be cut among processes.
std::vector<strategy::CutRule> cuts_of(const MoeConfig& config);

// Every expert's matrices are parameters of their own, under the names published folders have. The pass is left with
// the router's logits of each sparse layer, and unless it has a cache with the auxiliary loss where there is one.
// Throws ConfigError on a config that contradicts itself.
std::unique_ptr<Model> make_moe(const MoeConfig& config);

}  // namespace hyperion::models
