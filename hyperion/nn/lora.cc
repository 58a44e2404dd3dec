#include "hyperion/nn/lora.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::nn {
namespace {

using base::ConfigError;
using base::format;

constexpr const char* kAllLinear = "all-linear";

bool is_end(const std::string& path, const std::string& name) { return path == name || path.ends_with("." + name); }

template <class T>
T value_at(const std::vector<std::pair<PathExpression, T>>& patterns, const std::string& path, T otherwise) {
  for (const auto& [expression, value] : patterns)
    if (expression.matches(path)) return value;
  return otherwise;
}

void check_rank(int64_t rank) {
  if (rank < 1 || rank > kMostRank)
    throw ConfigError(format("an adapter's rank of {} is not in 1 to {}", rank, kMostRank));
}

void check_alpha(double alpha) {
  if (!std::isfinite(alpha)) throw ConfigError("an adapter's alpha is not a finite number");
}

}  // namespace

void check(const LoraConfig& config) {
  check_rank(config.rank);
  check_alpha(config.alpha);
  if (!(config.dropout >= 0 && config.dropout < 1))
    throw ConfigError(format("an adapter's dropout of {} is not in [0, 1)", config.dropout));
  if (config.targets.empty()) throw ConfigError("an adapter names no layers", "use \"all-linear\" for all of them");
  for (const auto& [expression, rank] : config.rank_pattern) check_rank(rank);
  for (const auto& [expression, alpha] : config.alpha_pattern) check_alpha(alpha);
}

bool fits(const LayerNames& layers, const std::string& path) {
  if (layers.all) return path != "lm_head";
  if (!layers.pattern.empty()) return layers.pattern.matches(path);
  return std::any_of(layers.names.begin(), layers.names.end(), [&](const auto& name) { return is_end(path, name); });
}

bool saves(const std::vector<std::string>& saved, const std::string& path) {
  return std::any_of(saved.begin(), saved.end(), [&](const auto& name) { return path.ends_with(name); });
}

bool is_routed(const std::string& path) {
  const std::string whole = path + ".";
  for (const char* part : {".experts.", ".mlp.gate.", ".block_sparse_moe.gate."})
    if (whole.find(part) != whole.npos) return true;
  return false;
}

bool is_output(const std::string& path) {
  return path == "lm_head" || path == "classifier" || path.starts_with("classifier.");
}

int64_t rank_of(const LoraConfig& config, const std::string& path) {
  return value_at(config.rank_pattern, path, config.rank);
}

double alpha_of(const LoraConfig& config, const std::string& path) {
  return value_at(config.alpha_pattern, path, config.alpha);
}

double scale_of(const LoraConfig& config, const std::string& path) {
  const auto rank = static_cast<double>(rank_of(config, path));
  return alpha_of(config, path) / (config.rank_stabilised ? std::sqrt(rank) : rank);
}

LayerNames layer_names(const std::string& text, const std::string& place) {
  LayerNames layers;
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '-'; };
  if (text == kAllLinear) {
    layers.all = true;
  } else if (!std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == ',' || c == ' '; })) {
    layers.pattern = {text, place};
  } else {
    std::string name;
    for (const char c : text + ",") {
      if (plain(c)) name += c;
      if (c == ',' && !name.empty()) layers.names.push_back(std::exchange(name, {}));
    }
  }
  return layers;
}

void describe(base::Settings& settings, LoraSettings& lora) {
  settings.section("lora", "a low-rank adapter trained in place of the model's own weights")
      .integer("rank", lora.rank, {0, static_cast<double>(kMostRank)}, "inner width of the adapter; 0: none, train all")
      .real("alpha", lora.alpha, {0, 1e6}, "the adapter counts alpha / rank")
      .real("dropout", lora.dropout, {0, 0.99}, "share of the adapter's inputs dropped in training")
      .flag("rslora", lora.rslora, "the adapter counts alpha / sqrt(rank) instead")
      .text("targets", lora.targets,
            "layers with an adapter: all-linear, names (\"q_proj,v_proj\"), or an expression of whole paths")
      .text("modules_to_save", lora.modules_to_save,
            "modules trained whole beside it, by how their names end (\"classifier\"); a new head always is");
}

namespace {

std::vector<std::string> names_alone(const std::string& text, const std::string& place) {
  const auto layers = layer_names(text, place);
  if (layers.all || !layers.pattern.empty())
    throw ConfigError(format("{} = \"{}\" is not names with commas between them", place, text),
                      "name modules such as classifier, embed_tokens or lm_head");
  return layers.names;
}

}  // namespace

LoraConfig config_of(const LoraSettings& lora) {
  LoraConfig config;
  config.rank = lora.rank;
  config.alpha = lora.alpha;
  config.dropout = lora.dropout;
  config.rank_stabilised = lora.rslora;
  config.targets = layer_names(lora.targets);
  config.saved = names_alone(lora.modules_to_save, "lora.modules_to_save");
  config.each_name_fits = true;
  check(config);
  return config;
}

}  // namespace hyperion::nn
