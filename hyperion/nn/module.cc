#include "hyperion/nn/module.h"

#include <ATen/ops/empty.h>

#include "hyperion/base/random.h"

namespace hyperion::nn {

at::Tensor Module::parameter(const std::string& name, at::IntArrayRef shape, Init init) {
  inits_[name] = init;
  return register_parameter(name, at::empty(shape, at::kFloat));
}

void Module::initialise(uint64_t seed, const std::string& prefix) {
  for (auto& item : named_parameters(/*recurse=*/false)) {
    const Init init = inits_.at(item.key());
    at::Tensor values = at::empty(item.value().sizes(), at::kFloat);
    if (init.deviation > 0) {
      const auto key = base::stream_key(seed, "init/" + prefix + item.key());
      base::fill_normal(key, 0, values.numel(), init.deviation, values.mutable_data_ptr<float>());
    } else {
      values.fill_(init.constant);
    }
    item.value().data().copy_(values);
  }
  for (auto& child : named_children())
    if (auto* module = dynamic_cast<Module*>(child.value().get())) module->initialise(seed, prefix + child.key() + ".");
}

}  // namespace hyperion::nn
