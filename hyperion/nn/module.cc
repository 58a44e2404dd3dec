#include "hyperion/nn/module.h"

#include <ATen/ops/empty.h>

#include "hyperion/base/error.h"
#include "hyperion/base/random.h"
#include "hyperion/nn/meta.h"

namespace hyperion::nn {
namespace {

// Elements from `begin` on of the parameter of that name.
void fill(const Init& init, uint64_t seed, const std::string& name, int64_t begin, const at::Tensor& values) {
  if (init.deviation == 0 && init.bound == 0) {
    values.fill_(init.constant);
    return;
  }
  const auto key = base::stream_key(seed, "init/" + name);
  const auto first = static_cast<uint64_t>(begin), count = static_cast<uint64_t>(values.numel());
  auto* out = values.mutable_data_ptr<float>();
  if (init.deviation > 0) return base::fill_normal(key, first, count, init.deviation, out);
  for (uint64_t i = 0; i < count; ++i)
    out[i] = init.bound * (2 * base::unit_float(base::random_bits(key, first + i)) - 1);
}

}  // namespace

at::Tensor Module::parameter(const std::string& name, at::IntArrayRef shape, Init init, Traits traits) {
  entries_[name] = {init, traits};
  return register_parameter(name, MetaScope::wanted() ? meta_tensor(shape, at::kFloat) : at::empty(shape, at::kFloat));
}

void Module::forget_parameter(const std::string& name) {
  parameters_.erase(name);
  entries_.erase(name);
}

void Module::visit(const std::function<void(const std::string& path, Module& module)>& each, const std::string& path) {
  each(path, *this);
  for (const auto& child : named_children())
    if (auto* module = dynamic_cast<Module*>(child.value().get()))
      module->visit(each, path.empty() ? child.key() : path + "." + child.key());
}

void Module::initialise(uint64_t seed, const std::string& prefix) {
  for (auto& item : named_parameters(/*recurse=*/false)) {
    if (!is_materialized(item.value())) continue;
    const at::Tensor values = at::empty(item.value().sizes(), at::kFloat);
    fill(entries_.at(item.key()).init, seed, prefix + item.key(), 0, values);
    item.value().data().copy_(values);
  }
  for (auto& child : named_children())
    if (auto* module = dynamic_cast<Module*>(child.value().get())) module->initialise(seed, prefix + child.key() + ".");
}

void Module::initial_values(uint64_t seed, const std::string& name, int64_t begin, const at::Tensor& out) const {
  const Module* owner = this;
  std::string rest = name;
  for (size_t dot = rest.find('.'); owner->entries_.count(rest) == 0 && dot != rest.npos; dot = rest.find('.')) {
    const auto children = owner->named_children();  // a copy, which `child` points into
    const auto* child = children.find(rest.substr(0, dot));
    const auto* module = child == nullptr ? nullptr : dynamic_cast<const Module*>(child->get());
    HYPERION_CHECK(module != nullptr, "no module of the tree holds " + name);
    owner = module;
    rest.erase(0, dot + 1);
  }
  fill(owner->entries_.at(rest).init, seed, name, begin, out);
}

std::vector<Parameter> Module::list_parameters(const std::string& prefix) const {
  std::vector<Parameter> list;
  for (const auto& item : named_parameters(/*recurse=*/false))
    list.push_back({prefix + item.key(), item.value(), entries_.at(item.key()).traits});
  for (const auto& child : named_children())
    if (const auto* module = dynamic_cast<const Module*>(child.value().get()))
      for (auto& inner : module->list_parameters(prefix + child.key() + ".")) list.push_back(std::move(inner));
  return list;
}

void Module::move_to(at::Device device, at::ScalarType type) {
  for (auto& item : list_parameters()) {
    const auto own = item.traits.wide ? at::kFloat : type;
    if (is_materialized(item.tensor)) {
      item.tensor.set_data(item.tensor.data().to(device, own));
    } else {
      item.tensor.set_data(meta_tensor(item.tensor.sizes(), item.tensor.options().device(device).dtype(own)));
    }
  }
  for (auto& buffer : buffers()) buffer.set_data(buffer.to(device));
  visit([&](const std::string& path, Module& module) {
    module.path_ = path;
    module.move_held(device);
  });
  lay_out_tree();
}

void Module::lay_out_tree() {
  for (const auto& item : list_parameters())
    if (!item.tensor.is_cuda() || !is_materialized(item.tensor)) return;
  visit([](const std::string&, Module& module) { module.lay_out(); });
}

at::Tensor Branch::forward(const at::Tensor&, Pass&) {
  HYPERION_CHECK(false, "a branch of the tree was run as a module");
  return {};
}

Stack::Stack(int64_t count, const std::function<std::shared_ptr<Module>(int64_t)>& make) {
  for (int64_t i = 0; i < count; ++i) blocks_.push_back(register_module(std::to_string(i), make(i)));
}

at::Tensor Stack::forward(const at::Tensor& input, Pass& pass) {
  at::Tensor hidden = input;
  for (auto& block : blocks_) hidden = run_unit(*block, Unit::block, hidden, pass);
  return hidden;
}

}  // namespace hyperion::nn
