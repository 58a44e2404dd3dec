#include "hyperion/nn/adapters.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/nn/layers.h"

namespace hyperion::nn {
namespace {

using base::ConfigError;
using base::format;

struct Layer {
  std::string path;
  Projection* projection;
};

std::vector<Layer> projections_of(Module& root) {
  std::vector<Layer> list;
  root.visit([&](const std::string& path, Module& module) {
    if (auto* projection = dynamic_cast<Projection*>(&module)) list.push_back({path, projection});
  });
  return list;
}

bool lies_in(const std::string& path, const std::vector<std::string>& modules) {
  return std::any_of(modules.begin(), modules.end(),
                     [&](const std::string& module) { return path == module || path.starts_with(module + "."); });
}

constexpr const char* kOutput = "lm_head";

bool saves_table(Module& root, const std::vector<std::string>& saved) {
  bool found = false;
  root.visit([&](const std::string& path, Module& module) {
    found = found || (dynamic_cast<Embedding*>(&module) != nullptr && lies_in(path, saved));
  });
  return found;
}

// Whether one of the names stands in the path as whole parts of it.
bool stands_in(const std::vector<std::string>& names, const std::string& path) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return ("." + path + ".").find("." + name + ".") != std::string::npos;
  });
}

// The paths of the modules that are trained whole beside the adapter. An output that is tied to the table of tokens is
// no module: it is trained with the table. What lies inside a linear layer or a table is an adapter's.
std::vector<std::string> saved_modules(Module& root, const LoraConfig& config) {
  std::vector<std::string> list;
  bool tied = false;
  for (const auto& name : config.saved) {
    const size_t before = list.size();
    std::string inside = ".";
    root.visit([&](const std::string& path, Module& module) {
      if (path.starts_with(inside)) return;
      if (dynamic_cast<Projection*>(&module) != nullptr || dynamic_cast<Embedding*>(&module) != nullptr)
        inside = path + ".";
      if (saves({name}, path)) list.push_back(path);
    });
    if (list.size() > before) continue;
    const bool output = saves({name}, kOutput);
    if (!output && config.each_name_fits)
      throw ConfigError(format("the model has no module \"{}\" to be trained beside the adapter", name),
                        "lora.modules_to_save names modules such as classifier or lm_head");
    tied = tied || output;
  }
  if (tied && !saves_table(root, list))
    throw ConfigError("the model has no output of its own to be trained beside the adapter: it is tied to the tokens",
                      "name the table of tokens in lora.modules_to_save: embed_tokens, or wte in GPT-2");
  return list;
}

bool has_own_weights(const LoraConfig& config) { return !config.saved.empty() || !config.token_rows.empty(); }

void train_rows(Module& root, const LoraConfig& config) {
  for (const auto& [name, tokens] : config.token_rows) {
    int found = 0;
    LayerNames one;
    one.names = {name};
    root.visit([&](const std::string& path, Module& module) {
      if (!fits(one, path)) return;
      if (auto* table = dynamic_cast<Embedding*>(&module)) table->train_rows(tokens), ++found;
      if (auto* output = dynamic_cast<Projection*>(&module)) output->train_rows(tokens), ++found;
    });
    if (found != 1)
      throw ConfigError(format("tokens of \"{}\" are to be trained, and the model has {} such tables", name, found));
  }
}

// The last parts of the paths of all linear layers, each once.
std::string layer_kinds(Module& root) {
  std::string text;
  std::set<std::string> met;
  for (const auto& [path, projection] : projections_of(root))
    if (const auto kind = path.substr(path.rfind('.') + 1); !path.ends_with(".lora_A") && met.insert(kind).second)
      text += (text.empty() ? "" : ", ") + kind;
  return text;
}

std::vector<Layer> layers_meant(Module& root, const LoraConfig& config, const std::vector<std::string>& saved) {
  std::vector<Layer> list;
  const std::string known = layer_kinds(root);
  std::string inside = ".";  // what lies inside a linear layer is an earlier adapter
  root.visit([&](const std::string& path, Module& module) {
    if (path.starts_with(inside) || (lies_in(path, saved) && stands_in(config.saved, path))) return;
    auto* projection = dynamic_cast<Projection*>(&module);
    if (projection != nullptr) inside = path + ".";
    const bool meant = (projection != nullptr || !config.targets.all) && fits(config.targets, path);
    if (!meant || fits(config.excluded, path) || (!config.routed && is_routed(path))) return;
    if (projection == nullptr)
      throw ConfigError(
          format("an adapter is asked for at {}, which is not a linear layer", path.empty() ? "the whole model" : path),
          "name linear layers only, such as " + known);
    if (lies_in(path, saved))  // PEFT would do both, one inside the other
      throw ConfigError(format("{} would be trained whole, by the end of a name, and have an adapter as well", path),
                        "lora.modules_to_save with whole parts of names, such as self_attn, leaves the adapter out");
    list.push_back({path, projection});
  });
  if (list.empty() && known.empty())
    throw ConfigError("the model has no linear layer that an adapter could lie beside",
                      "train it whole: leave lora.rank out");
  if (list.empty()) throw ConfigError("no layer of the model is among the adapter's", "its linear layers: " + known);
  if (config.each_name_fits)
    for (const auto& name : config.targets.names) {
      const LayerNames one{.names = {name}};
      if (std::none_of(list.begin(), list.end(), [&](const Layer& layer) { return fits(one, layer.path); }))
        throw ConfigError(format("lora.targets names \"{}\", and no linear layer of the model is called so", name),
                          "its linear layers: " + known);
    }
  return list;
}

void check_name(const std::string& name, const std::vector<std::string>& taken) {
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain))
    throw ConfigError(format("\"{}\" cannot name an adapter", name), "use letters, digits, _ and -");
  if (std::find(taken.begin(), taken.end(), name) != taken.end())
    throw ConfigError(format("there already is an adapter \"{}\"", name));
}

}  // namespace

Adapters::Adapters(Module& root) : root_(root), choice_(std::make_shared<AdapterChoice>()) {}
Adapters::~Adapters() = default;

void Adapters::add(const std::string& name, const LoraConfig& config, uint64_t seed) {
  check(config);
  check_name(name, choice_->names);
  if (!empty() && (has_own_weights(config) || has_own_weights(configs_.front())))
    throw ConfigError(
        format("adapter \"{}\" cannot lie beside another: one of the two has modules or tokens of its own", name),
        "use one of them at a time");
  const auto saved = saved_modules(root_, config);
  const auto layers = layers_meant(root_, config, saved);
  if (empty())
    for (auto& item : root_.list_parameters()) item.tensor.set_requires_grad(lies_in(item.name, saved));
  train_rows(root_, config);
  choice_->names.push_back(name);
  configs_.push_back(config);
  const int64_t added = index(name);
  for (const auto& [path, projection] : layers) projection->add_adapter(path, added, choice_, config, seed);
  if (added == 0) choice_->used = 0;
  root_.lay_out_tree();  // the weights get room beside them
}

const std::vector<std::string>& Adapters::names() const { return choice_->names; }

int64_t Adapters::index(const std::string& name) const {
  if (name.empty()) return -1;
  const auto& names = choice_->names;
  const auto found = std::find(names.begin(), names.end(), name);
  if (found != names.end()) return found - names.begin();
  const auto near = base::nearest(name, names.data(), names.data() + names.size());
  std::string all;
  for (const auto& one : names) all += (all.empty() ? "it has " : ", ") + one;
  throw ConfigError(format("the model has no adapter \"{}\"", name),
                    near.empty() ? all : format("did you mean {}?", near));
}

const LoraConfig& Adapters::config(const std::string& name) const { return configs_.at(index(name)); }

void Adapters::use(const std::string& name) { choice_->used = index(name); }

std::vector<Adapters::Entry> Adapters::parameters(const std::string& name) const {
  std::vector<Entry> list;
  for (const auto& [path, projection] : projections_of(root_)) {
    const auto [a, b] = projection->adapter(index(name));
    if (!a.defined()) continue;
    list.push_back({path + ".lora_A.weight", a});
    list.push_back({path + ".lora_B.weight", b});
  }
  const auto saved = saved_modules(root_, config(name));
  for (const auto& item : root_.list_parameters())
    if (lies_in(item.name, saved) || item.name.ends_with(kTokenRowsParameter)) list.push_back({item.name, item.tensor});
  return list;
}

void Adapters::set_in_own_type(const at::Tensor& parameter, const at::Tensor& value) {
  in_own_type_.emplace_back(parameter, parameter.scalar_type());
  in_own_type_.back().first.set_data(value.detach().to(parameter.device(), value.scalar_type(), false, /*copy=*/true));
}

std::optional<Adapters::Rounding> Adapters::rounding() const {
  for (const auto& [parameter, type] : in_own_type_)
    if (parameter.scalar_type() != type && type != at::kFloat) return Rounding{parameter.scalar_type(), type};
  return {};
}

std::vector<std::string> Adapters::layers(const std::string& name) const {
  std::set<std::string> paths, ends;
  const auto all = projections_of(root_);
  for (const auto& [path, projection] : all) {
    if (!projection->adapter(index(name)).first.defined()) continue;
    paths.insert(path);
    ends.insert(path.substr(path.rfind('.') + 1));
  }
  LayerNames by_end;
  by_end.names.assign(ends.begin(), ends.end());
  const bool just_them = std::all_of(all.begin(), all.end(), [&](const Layer& layer) {
    return fits(by_end, layer.path) == paths.contains(layer.path);
  });
  return just_them ? by_end.names : std::vector<std::string>(paths.begin(), paths.end());
}

bool Adapters::first_is_in_out(const std::string& name) const {
  for (const auto& [path, projection] : projections_of(root_))
    if (projection->adapter(index(name)).first.defined()) return projection->in_out();
  return false;
}

void Adapters::merge(const std::string& name) {
  const int64_t merged = index(name);
  for (const auto& [path, projection] : projections_of(root_)) {
    projection->merge_adapter(merged);
    projection->drop_adapters();
  }
  for (auto& [parameter, type] : in_own_type_) parameter.set_data(parameter.data().to(type));
  in_own_type_.clear();
  root_.visit([](const std::string&, Module& module) {
    if (auto* table = dynamic_cast<Embedding*>(&module)) table->merge_rows();
    if (auto* output = dynamic_cast<Projection*>(&module)) output->merge_rows();
  });
  *choice_ = {};
  configs_.clear();
  for (auto& item : root_.list_parameters()) item.tensor.set_requires_grad(true);
}

}  // namespace hyperion::nn
