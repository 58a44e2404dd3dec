// How the classifiers of images may be cut.
#include "hyperion/models/resnet.h"
#include "hyperion/models/vit.h"

namespace hyperion::models {

using strategy::CutKind;

std::vector<strategy::CutRule> cuts_of(const VitConfig& config) {
  const strategy::Cut heads{CutKind::heads, 0, config.heads};
  return {
      {"vit.embeddings.*", {}},
      {"vit.layers.#.layernorm_before.*", {}},
      {"vit.layers.#.attention.q_proj.*", heads},
      {"vit.layers.#.attention.k_proj.*", heads},
      {"vit.layers.#.attention.v_proj.*", heads},
      {"vit.layers.#.attention.o_proj.weight", {CutKind::row, 1, config.heads}},
      {"vit.layers.#.attention.o_proj.bias", {CutKind::row_bias}},
      {"vit.layers.#.layernorm_after.*", {}},
      {"vit.layers.#.mlp.fc1.*", {CutKind::column}},
      {"vit.layers.#.mlp.fc2.weight", {CutKind::row, 1}},
      {"vit.layers.#.mlp.fc2.bias", {CutKind::row_bias}},
      {"vit.layernorm.*", {}},
      {"classifier.*", {}},
  };
}

// Its layers are small and its activations large: only the batch is shared.
std::vector<strategy::CutRule> cuts_of(const ResnetConfig& /*config*/) { return {{"*", {}}}; }

}  // namespace hyperion::models
