#include "hyperion/nn/adapters.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/nn/projection.h"

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

std::vector<Layer> layers_meant(Module& root, const LoraConfig& config) {
  std::vector<Layer> list;
  std::string known, inside = ".";  // what lies inside a linear layer is an earlier adapter
  root.visit([&](const std::string& path, Module& module) {
    if (path.starts_with(inside)) return;
    auto* projection = dynamic_cast<Projection*>(&module);
    if (projection != nullptr) inside = path + ".";
    if (projection != nullptr && known.size() < 200) known += (known.empty() ? "" : ", ") + path;
    const bool meant = (projection != nullptr || !config.targets.all) && fits(config.targets, path);
    if (!meant || fits(config.excluded, path)) return;
    if (projection == nullptr)
      throw ConfigError(format("an adapter is asked for at {}, which is not a linear layer", path),
                        "name linear layers only, such as " + known);
    list.push_back({path, projection});
  });
  if (list.empty()) throw ConfigError("no layer of the model is among the adapter's", "its linear layers: " + known);
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
  const auto layers = layers_meant(root_, config);
  if (empty())
    for (auto& item : root_.list_parameters()) item.tensor.set_requires_grad(false);
  choice_->names.push_back(name);
  configs_.push_back(config);
  const int64_t added = index(name);
  for (const auto& [path, projection] : layers) projection->add_adapter(path, added, choice_, config, seed);
  if (added == 0) choice_->used = 0;
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
  return list;
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
  *choice_ = {};
  configs_.clear();
  for (auto& item : root_.list_parameters()) item.tensor.set_requires_grad(true);
}

}  // namespace hyperion::nn
