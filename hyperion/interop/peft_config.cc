#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/interop/peft.h"

namespace hyperion::interop {
namespace {

using base::CorruptError;
using base::format;
using OrderedJson = nlohmann::ordered_json;  // of several expressions the first that fits counts

// Settings read below, and those that say nothing of the function the adapter is.
const std::set<std::string> kKnown = {"peft_type",         "r",
                                      "lora_alpha",        "lora_dropout",
                                      "use_rslora",        "target_modules",
                                      "modules_to_save",   "trainable_token_indices",
                                      "exclude_modules",   "rank_pattern",
                                      "alpha_pattern",     "bias",
                                      "init_lora_weights", "base_model_name_or_path",
                                      "revision",          "task_type",
                                      "auto_mapping",      "peft_version",
                                      "inference_mode",    "fan_in_fan_out",
                                      "megatron_core",     "qalora_group_size",
                                      "loftq_config",      "eva_config",
                                      "corda_config",      "lora_ga_config",
                                      "runtime_config",    "ephemeral_gpu_offload",
                                      "layers_pattern",    "ensure_weight_tying"};

constexpr double kMostAlpha = 1e6;  // as of lora.alpha

bool is_off(const OrderedJson& value) {
  return value.is_null() || value == false || value == 0 || value == "" || (value.is_structured() && value.empty());
}

class ConfigFields {
 public:
  ConfigFields(const OrderedJson& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json.is_object()) refuse("is not an object");
  }

  const OrderedJson* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  double number(const char* key, double absent) const {
    const OrderedJson* value = find(key);
    if (value == nullptr) return absent;
    if (!value->is_number()) refuse(format("{} is not a number", key));
    return value->get<double>();
  }
  bool flag(const char* key) const {
    const OrderedJson* value = find(key);
    if (value != nullptr && !value->is_boolean()) refuse(format("{} is neither true nor false", key));
    return value != nullptr && value->get<bool>();
  }
  nn::LayerNames layers(const char* key) const {
    nn::LayerNames layers;
    const OrderedJson* value = find(key);
    if (value == nullptr) return layers;
    if (value->is_string()) {
      std::string text = value->get<std::string>(), lower = text;
      for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (lower == "all-linear") {
        layers.all = true;
      } else {
        layers.pattern = expression(text, key);
      }
      return layers;
    }
    if (!value->is_array()) refuse(format("{} is neither a text nor a list", key));
    for (const OrderedJson& item : *value) {
      if (!item.is_string()) refuse(format("{} holds something else than names", key));
      layers.names.push_back(item.get<std::string>());
    }
    return layers;
  }
  // A text is one name.
  std::vector<std::string> names(const char* key) const {
    const OrderedJson* value = find(key);
    if (value != nullptr && value->is_string()) return {value->get<std::string>()};
    return layers(key).names;
  }
  template <class T>
  std::vector<std::pair<nn::PathExpression, T>> patterns(const char* key, double most) const {
    std::vector<std::pair<nn::PathExpression, T>> list;
    const OrderedJson* value = find(key);
    if (value == nullptr) return list;
    if (!value->is_object()) refuse(format("{} is not an object", key));
    for (const auto& [name, item] : value->items()) {
      const double number = item.is_number() ? item.template get<double>() : std::nan("");
      if (!(std::abs(number) <= most)) refuse(format("{}.{} is not a number in range", key, name));
      list.emplace_back(expression(name, key, nn::PathExpression::Reach::end), static_cast<T>(number));
    }
    return list;
  }
  // Of the input's table a list; of tables by name an object of lists.
  std::vector<std::pair<std::string, std::vector<int64_t>>> token_rows() const {
    const OrderedJson* value = find("trainable_token_indices");
    if (value == nullptr) return {};
    if (!value->is_structured()) refuse("trainable_token_indices is neither a list nor an object of lists");
    std::vector<std::pair<std::string, std::vector<int64_t>>> list;
    const OrderedJson tables = value->is_array() ? OrderedJson::object({{"", *value}}) : *value;
    for (const auto& [name, tokens] : tables.items()) {
      auto& rows = list.emplace_back(name, std::vector<int64_t>()).second;
      for (const OrderedJson& token : tokens.is_array() ? tokens : OrderedJson::array({nullptr})) {
        if (!token.is_number_integer()) refuse("trainable_token_indices holds something else than token ids");
        rows.push_back(token.get<int64_t>());
      }
    }
    return list;
  }
  void refuse_others() const {
    for (const auto& [key, value] : json_.items())
      if (!kKnown.contains(key) && !is_off(value))
        refuse(format("{} = {} is not supported here", key, value.dump()), "merge it into its base with PEFT");
  }
  [[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) const {
    throw CorruptError(format("{}: {}", place_, what), hint);
  }

 private:
  nn::PathExpression expression(const std::string& text, const char* key,
                                nn::PathExpression::Reach reach = nn::PathExpression::Reach::whole) const {
    try {
      return {text, key, reach};
    } catch (const base::ConfigError& error) {
      refuse(error.what(), error.hint());
    }
  }

  const OrderedJson& json_;
  std::string place_;
};

void refuse_other_kinds(const ConfigFields& fields) {
  const OrderedJson* kind = fields.find("peft_type");
  if (kind == nullptr || *kind != "LORA")
    fields.refuse(format("peft_type {} is not LORA, the only kind read here", kind == nullptr ? "null" : kind->dump()));
  if (const OrderedJson* bias = fields.find("bias"); bias != nullptr && *bias != "none")
    fields.refuse(format("bias = {} is not supported here", bias->dump()), "only \"none\" is");
  // Some starts change the base's weights as well, and PEFT repeats them when it loads.
  if (const OrderedJson* init = fields.find("init_lora_weights"); init != nullptr && init->is_string())
    if (*init != "gaussian" && *init != "orthogonal" && *init != "eva" && *init != "lora_ga")
      fields.refuse(format("init_lora_weights = {} changes the base, and is not supported here", init->dump()),
                    "save it with path_initial_model_for_weight_conversion");
  fields.refuse_others();
}

OrderedJson number_of(double value) {
  return value == std::floor(value) ? OrderedJson(static_cast<int64_t>(value)) : OrderedJson(value);
}

OrderedJson layers_json(const nn::LayerNames& layers) {
  if (layers.empty()) return nullptr;
  return layers.pattern.empty() ? OrderedJson(layers.names) : OrderedJson(layers.pattern.text());
}

}  // namespace

AdapterConfig parse_adapter_config(const std::string& text, const std::string& place) {
  base::parse_json(text, place);  // says where it is broken
  const OrderedJson json = OrderedJson::parse(text);
  const ConfigFields fields(json, place);
  refuse_other_kinds(fields);
  nn::LoraConfig config;
  const double rank = fields.number("r", 8);
  if (!(rank >= 1 && rank <= nn::kMostRank)) fields.refuse(format("r is not in 1 to {}", nn::kMostRank));
  config.rank = static_cast<int64_t>(rank);
  config.alpha = fields.number("lora_alpha", 8);
  if (!(std::abs(config.alpha) <= kMostAlpha)) fields.refuse("lora_alpha is not a number in range");
  config.dropout = fields.number("lora_dropout", 0);
  config.rank_stabilised = fields.flag("use_rslora");
  config.targets = fields.layers("target_modules");
  config.excluded = fields.layers("exclude_modules");
  config.saved = fields.names("modules_to_save");
  config.token_rows = fields.token_rows();
  config.rank_pattern = fields.patterns<int64_t>("rank_pattern", nn::kMostRank);
  config.alpha_pattern = fields.patterns<double>("alpha_pattern", kMostAlpha);
  const OrderedJson* base_model = fields.find("base_model_name_or_path");
  return {config, base_model != nullptr && base_model->is_string() ? base_model->get<std::string>() : std::string(),
          fields.flag("ensure_weight_tying")};
}

std::string adapter_config_text(models::Model& model, const std::string& name, const std::string& base_model,
                                const std::string& also_saved) {
  const auto& adapters = model.adapters();
  const nn::LoraConfig& config = adapters.config(name);
  OrderedJson ranks = OrderedJson::object(), alphas = OrderedJson::object();
  for (const auto& [expression, rank] : config.rank_pattern) ranks[expression.text()] = rank;
  for (const auto& [expression, alpha] : config.alpha_pattern) alphas[expression.text()] = number_of(alpha);
  auto saved = config.saved;
  if (!also_saved.empty() && std::find(saved.begin(), saved.end(), also_saved) == saved.end())
    saved.push_back(also_saved);
  OrderedJson tokens = OrderedJson::object();
  for (const auto& [module, rows] : config.token_rows) tokens[module] = rows;
  const OrderedJson json = {
      {"peft_type", "LORA"},
      {"task_type", model.input() == models::Input::tokens ? OrderedJson("CAUSAL_LM") : OrderedJson(nullptr)},
      {"base_model_name_or_path", base_model},
      {"r", config.rank},
      {"lora_alpha", number_of(config.alpha)},
      {"lora_dropout", config.dropout},
      {"use_rslora", config.rank_stabilised},
      {"target_modules", config.targets.all ? OrderedJson(adapters.layers(name)) : layers_json(config.targets)},
      {"exclude_modules", config.targets.all ? OrderedJson(nullptr) : layers_json(config.excluded)},
      {"rank_pattern", ranks},
      {"alpha_pattern", alphas},
      {"fan_in_fan_out", adapters.first_is_in_out(name)},
      {"bias", "none"},
      {"init_lora_weights", true},
      {"use_dora", false},
      {"modules_to_save", saved.empty() ? OrderedJson(nullptr) : OrderedJson(saved)},
      {"trainable_token_indices", tokens.empty() ? OrderedJson(nullptr) : tokens},
      {"inference_mode", true}};
  return json.dump(2) + "\n";
}

}  // namespace hyperion::interop
