#include "hyperion/models/gpt2.h"

namespace hyperion::models {

using strategy::CutKind;

// Weights are stored [in, out]; queries, keys and values are one layer's outputs, side by side.
std::vector<strategy::CutRule> cuts_of(const Gpt2Config& config) {
  const std::vector<std::string> packed = {"q", "k", "v"};
  return {
      {"transformer.wte.weight", {CutKind::vocabulary}},
      {"transformer.wpe.weight", {}},
      {"transformer.h.#.ln_1.*", {}},
      {"transformer.h.#.attn.c_attn.weight", {CutKind::heads, 1, config.heads, packed}},
      {"transformer.h.#.attn.c_attn.bias", {CutKind::heads, 0, config.heads, packed}},
      {"transformer.h.#.attn.c_proj.weight", {CutKind::row, 0, config.heads}},
      {"transformer.h.#.attn.c_proj.bias", {CutKind::row_bias}},
      {"transformer.h.#.ln_2.*", {}},
      {"transformer.h.#.mlp.c_fc.weight", {CutKind::column, 1}},
      {"transformer.h.#.mlp.c_fc.bias", {CutKind::column, 0}},
      {"transformer.h.#.mlp.c_proj.weight", {CutKind::row, 0}},
      {"transformer.h.#.mlp.c_proj.bias", {CutKind::row_bias}},
      {"transformer.ln_f.*", {}},
      {"lm_head.weight", {CutKind::vocabulary}},
  };
}

}  // namespace hyperion::models
