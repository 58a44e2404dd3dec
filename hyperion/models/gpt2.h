// GPT-2 (Radford et al., 2019): pre-norm decoder, learned positions, tanh GELU, output tied to the token embedding or
// not.
#pragma once
#include <memory>
#include <string>

#include "hyperion/models/initial_deviation.h"
#include "hyperion/models/model.h"

namespace hyperion::models {

struct Gpt2Config {
  int64_t layers = 4, heads = 4, width = 128, context = 128, vocabulary = 256;
  double dropout = 0.0, embedding_dropout = 0.0;
  double attention_dropout = 0.0;  // kept for who reads the config; not applied: attention's weights are never held
  int64_t inner = 0;               // of the feed-forward part; 0: four times the width
  double epsilon = 1e-5;
  double init_std = kInitStd;
  bool tied = true;
};

// As Hugging Face's config.json writes it; from_json throws CorruptError naming `place` on
// anything that would make another function of it than the one here.
std::string to_json(const Gpt2Config& config);
Gpt2Config gpt2_from_json(const std::string& text, const std::string& place);

// Without making it: no memory is taken.
strategy::ModelShape shape_of(const Gpt2Config& config, int64_t length);
// How its parameters may be cut among processes.
std::vector<strategy::CutRule> cuts_of(const Gpt2Config& config);

// Throws ConfigError on a config that contradicts itself.
std::unique_ptr<Model> make_gpt2(const Gpt2Config& config);

}  // namespace hyperion::models
