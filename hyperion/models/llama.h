// Llama 2 and 3 (Touvron et al., 2023), Mistral (Jiang et al., 2023), Qwen2 (Yang et al., 2024) and Qwen3 (Yang et al.,
// 2025): pre-norm decoder with RMSNorm, rotary positions, key and value heads shared by groups of query heads, and a
// gated SiLU feed-forward part. Qwen2 has biases on its queries, keys and values; Qwen3 norms each head's queries and
// keys in their place. All but Llama may have layers that see the last tokens alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "hyperion/models/decoder_config.h"
#include "hyperion/models/model.h"

namespace hyperion::models {

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
