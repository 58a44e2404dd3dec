// The [model] section of a recipe: a preset by name or a config.json, changed where the recipe says so, or another
// model's weights to start from. What comes out is the text of a config.json, the one form in which models are
// described from here on.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "hyperion/base/config.h"

namespace hyperion::models {

enum class Quantize { none, nf4 };
constexpr auto words_of(Quantize) { return std::array{"none", "nf4"}; }

// 0: as the preset has it.
struct Recipe {
  std::string preset = "gpt2-tiny", config, from;
  Quantize quantize = Quantize::none;
  int64_t layers = 0, heads = 0, key_value_heads = 0, width = 0, inner = 0, context = 0, vocabulary = 0;
  double dropout = 0;
  int64_t experts = 0, experts_per_token = 0;
  double balance_loss = 0, router_z_loss = 0, capacity = 0;
  int64_t image = 0, patch = 0, classes = 0;
};
void describe(base::Settings& settings, Recipe& recipe);

// As Hugging Face's config.json. Throws ConfigError where a setting means nothing to the preset's family, or where they
// contradict each other. Not for a recipe with `from`: that model has its own.
std::string config_json(const Recipe& recipe);

// Throws ConfigError where a recipe with `from` also says what the model looks like, but for its classes and token ids,
// and the size of images, of which config_of_base knows more.
void check_from(const Recipe& recipe);

// The config.json of `from` with the size of images that the recipe asks for: convolutions take any. Throws ConfigError
// where another model is asked for another size than its own.
std::string config_of_base(const Recipe& recipe, const std::string& config);
// Whether it is that of a ResNet.
bool is_resnet(const std::string& config, const std::string& place);

struct Preset {
  const char* name;
  const char* meaning;
  const char* config;  // JSON
};
const std::vector<Preset>& presets();

}  // namespace hyperion::models
