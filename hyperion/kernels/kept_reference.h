// What a function of autograd keeps of its forward for its backward without owning it: it outlives both.
#pragma once
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

namespace hyperion::kernels {

template <class T>
struct KeptReference final : torch::CustomClassHolder {
  explicit KeptReference(T& given) : value(given) {}
  T& value;
};

template <class T>
void keep_reference(torch::autograd::AutogradContext* context, const char* name, T& value) {
  context->saved_data[name] = c10::IValue::make_capsule(c10::make_intrusive<KeptReference<T>>(value));
}

template <class T>
T& kept_reference(torch::autograd::AutogradContext* context, const char* name) {
  const auto capsule = context->saved_data.at(name).toCapsule();
  return static_cast<const KeptReference<T>&>(*capsule).value;
}

}  // namespace hyperion::kernels
