// Low-rank adapters (Hu et al., 2021): y = base(x) + scale * B(A(dropout(x))) beside linear layers whose own weights
// are frozen. The settings, and which layers they mean, are PEFT's. Light: any file may include it.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/nn/path_expression.h"

namespace hyperion::base {
class Settings;
}

namespace hyperion::nn {

// Layers by name.
struct LayerNames {
  bool all = false;                     // every linear layer but the output over a vocabulary, "lm_head"
  std::vector<std::string> names = {};  // a layer's whole path, or its last parts
  PathExpression pattern = {};          // of the whole path
  bool empty() const { return !all && names.empty() && pattern.empty(); }
};

struct LoraConfig {
  int64_t rank = 8;
  double alpha = 16;             // scale = alpha / rank
  double dropout = 0;            // of the adapter's input, in training
  bool rank_stabilised = false;  // scale = alpha / sqrt(rank)
  LayerNames targets{.all = true};
  LayerNames excluded = {};
  bool each_name_fits = false;          // a name that is no layer's or module's is an error; PEFT passes over it
  std::vector<std::string> saved = {};  // modules trained whole beside it, by how their paths end: a new head
  // Rows of the token table and the output that are trained beside it, by the last part of the module's path.
  std::vector<std::pair<std::string, std::vector<int64_t>>> token_rows = {};
  bool routed = true;  // layers of routed experts and their routers are meant too; PEFT knows none of these
  // Of these, the first whose expression fits the end of a layer's path counts for that layer.
  std::vector<std::pair<PathExpression, int64_t>> rank_pattern = {};
  std::vector<std::pair<PathExpression, double>> alpha_pattern = {};
};

constexpr int64_t kMostRank = 1 << 14;

// Throws ConfigError on a rank, alpha or dropout that cannot be.
void check(const LoraConfig& config);

bool fits(const LayerNames& layers, const std::string& path);
// Whether one of the names is how the path ends. PEFT does not ask for whole parts of it here: "norm" is also an
// input_layernorm.
bool saves(const std::vector<std::string>& saved, const std::string& path);
bool is_routed(const std::string& path);  // of an expert among several, or of what chooses among them
bool is_output(const std::string& path);  // over a vocabulary or classes: such a layer is never put into 4 bits
int64_t rank_of(const LoraConfig& config, const std::string& path);
double alpha_of(const LoraConfig& config, const std::string& path);
double scale_of(const LoraConfig& config, const std::string& path);

// "all-linear"; names with commas between them; or else, where there is any other sign than letters, digits and "_.-",
// a regular expression, whose errors name `place`.
LayerNames layer_names(const std::string& text, const std::string& place = "lora.targets");

// As a recipe says it: the section [lora].
struct LoraSettings {
  int64_t rank = 0;  // 0: no adapter
  double alpha = 16, dropout = 0;
  bool rslora = false;
  std::string targets = "all-linear", modules_to_save;
};
void describe(base::Settings& settings, LoraSettings& lora);
LoraConfig config_of(const LoraSettings& lora);  // checked

}  // namespace hyperion::nn
