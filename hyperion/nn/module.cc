#include "hyperion/nn/module.h"

#include <ATen/ops/empty.h>

#include "hyperion/base/random.h"

namespace hyperion::nn {
namespace {

void fill_uniform(base::StreamKey key, float bound, const at::Tensor& values) {
  auto* out = values.mutable_data_ptr<float>();
  for (int64_t i = 0; i < values.numel(); ++i)
    out[i] = bound * (2 * base::unit_float(base::random_bits(key, static_cast<uint64_t>(i))) - 1);
}

}  // namespace

at::Tensor Module::parameter(const std::string& name, at::IntArrayRef shape, Init init, Traits traits) {
  entries_[name] = {init, traits};
  return register_parameter(name, at::empty(shape, at::kFloat));
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
    const Init init = entries_.at(item.key()).init;
    at::Tensor values = at::empty(item.value().sizes(), at::kFloat);
    if (init.deviation > 0) {
      const auto key = base::stream_key(seed, "init/" + prefix + item.key());
      base::fill_normal(key, 0, values.numel(), init.deviation, values.mutable_data_ptr<float>());
    } else if (init.bound > 0) {
      const auto key = base::stream_key(seed, "init/" + prefix + item.key());
      fill_uniform(key, init.bound, values);
    } else {
      values.fill_(init.constant);
    }
    item.value().data().copy_(values);
  }
  for (auto& child : named_children())
    if (auto* module = dynamic_cast<Module*>(child.value().get())) module->initialise(seed, prefix + child.key() + ".");
}

std::vector<NamedParameter> Module::list_parameters(const std::string& prefix) const {
  std::vector<NamedParameter> list;
  for (const auto& item : named_parameters(/*recurse=*/false))
    list.push_back({prefix + item.key(), item.value(), entries_.at(item.key()).traits});
  for (const auto& child : named_children())
    if (const auto* module = dynamic_cast<const Module*>(child.value().get()))
      for (auto& inner : module->list_parameters(prefix + child.key() + ".")) list.push_back(std::move(inner));
  return list;
}

void Module::move_to(at::Device device, at::ScalarType type) {
  for (auto& item : list_parameters())
    item.tensor.set_data(item.tensor.data().to(device, item.traits.wide ? at::kFloat : type));
  for (auto& buffer : buffers()) buffer.set_data(buffer.to(device));
  visit([&](const std::string&, Module& module) {
    module.move_held(device);
    if (device.is_cuda()) module.lay_out();
  });
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
