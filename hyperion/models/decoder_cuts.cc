// How Llama's kin may be cut: what all of them share, then what their feed-forward parts are.
#include "hyperion/models/moe.h"

namespace hyperion::models {
namespace {

using strategy::Copies;
using strategy::Cut;
using strategy::CutKind;
using strategy::CutRule;

// Held by all, but used on what each process has of the heads or of the experts' answers.
const Cut kPartialOnEach{.copies = Copies::partial};

std::vector<CutRule> decoder_cuts(const LlamaConfig& config, std::vector<CutRule> more) {
  const Cut keys{CutKind::key_value_heads, 0, config.key_value_heads, {}, Copies::partial};
  std::vector<CutRule> rules = {
      {"model.embed_tokens.weight", {CutKind::vocabulary}},
      {"model.layers.#.input_layernorm.weight", {}},
      {"model.layers.#.self_attn.q_proj.*", {CutKind::heads, 0, config.heads}},
      {"model.layers.#.self_attn.k_proj.*", keys},
      {"model.layers.#.self_attn.v_proj.*", keys},
      {"model.layers.#.self_attn.o_proj.weight", {CutKind::row, 1, config.heads}},
      {"model.layers.#.post_attention_layernorm.weight", {}},
      {"model.norm.weight", {}},
      {"lm_head.weight", {CutKind::vocabulary}},
  };
  rules.insert(rules.end(), more.begin(), more.end());
  return rules;
}

}  // namespace

std::vector<CutRule> cuts_of(const LlamaConfig& config) {
  return decoder_cuts(config, {
                                  {"model.layers.#.self_attn.q_norm.weight", kPartialOnEach},
                                  {"model.layers.#.self_attn.k_norm.weight", kPartialOnEach},
                                  {"model.layers.#.self_attn.o_proj.bias", {CutKind::row_bias}},
                                  {"model.layers.#.mlp.gate_proj.*", {CutKind::column}},
                                  {"model.layers.#.mlp.up_proj.*", {CutKind::column}},
                                  {"model.layers.#.mlp.down_proj.weight", {CutKind::row, 1}},
                                  {"model.layers.#.mlp.down_proj.bias", {CutKind::row_bias}},
                              });
}

// A router weighs the answers of experts, of which each process has a part of the sum; a loss of the router's own (the
// balance) has the same gradient on all, and so counts one share on each.
std::vector<CutRule> cuts_of(const MoeConfig& config) {
  if (config.decoder.model_type == "mixtral")
    return decoder_cuts(config.decoder,
                        {
                            {"model.layers.#.block_sparse_moe.gate.weight", kPartialOnEach},
                            {"model.layers.#.block_sparse_moe.experts.#.w1.weight", {CutKind::column}, config.experts},
                            {"model.layers.#.block_sparse_moe.experts.#.w3.weight", {CutKind::column}, config.experts},
                            {"model.layers.#.block_sparse_moe.experts.#.w2.weight", {CutKind::row, 1}, config.experts},
                        });
  return decoder_cuts(config.decoder,
                      {
                          {"model.layers.#.mlp.gate.weight", kPartialOnEach},
                          {"model.layers.#.mlp.experts.#.gate_proj.weight", {CutKind::column}, config.experts},
                          {"model.layers.#.mlp.experts.#.up_proj.weight", {CutKind::column}, config.experts},
                          {"model.layers.#.mlp.experts.#.down_proj.weight", {CutKind::row, 1}, config.experts},
                          {"model.layers.#.mlp.shared_expert.gate_proj.weight", {CutKind::column}},
                          {"model.layers.#.mlp.shared_expert.up_proj.weight", {CutKind::column}},
                          {"model.layers.#.mlp.shared_expert.down_proj.weight", {CutKind::row, 1}},
                          {"model.layers.#.mlp.shared_expert_gate.weight", kPartialOnEach},
                          {"model.layers.#.mlp.gate_proj.weight", {CutKind::column}},
                          {"model.layers.#.mlp.up_proj.weight", {CutKind::column}},
                          {"model.layers.#.mlp.down_proj.weight", {CutKind::row, 1}},
                      });
}

}  // namespace hyperion::models
