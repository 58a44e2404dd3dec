#include "hyperion/parallel/tensor_shards.h"

#include <ATen/core/ivalue.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hyperion::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr const char *kStates = "hidden states", *kGradients = "hidden gradients";

struct HeldGroup final : torch::CustomClassHolder {
  explicit HeldGroup(comm::Group& given) : group(given) {}
  comm::Group& group;
};

void keep(AutogradContext* context, comm::Group& group, bool by_sequence) {
  context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<HeldGroup>(group));
  context->saved_data["by_sequence"] = by_sequence;
}
comm::Group& group_of(AutogradContext* context) {
  return static_cast<HeldGroup&>(*context->saved_data.at("group").toCapsule()).group;
}

at::Tensor sum_of(const at::Tensor& part, comm::Group& group, const char* caller) {
  const auto sum = part.clone(at::MemoryFormat::Contiguous);
  group.all_reduce(sum, caller).wait();
  return sum;
}

// [batch, length, width] of parts along the length, and back.
at::Tensor all_tokens(const at::Tensor& own, comm::Group& group, const char* caller) {
  const int64_t count = group.size(), batch = own.size(0), length = own.size(1);
  const auto all = at::empty({count, batch, length, own.size(2)}, own.options());
  group.all_gather(all, own.contiguous(), caller).wait();
  return all.transpose(0, 1).reshape({batch, count * length, own.size(2)});
}

at::Tensor own_sum(const at::Tensor& part, comm::Group& group, const char* caller) {
  const int64_t count = group.size(), batch = part.size(0), length = part.size(1) / count;
  const auto sum = at::empty({batch, length, part.size(2)}, part.options().dtype(at::kFloat));
  group.reduce_scatter(sum, part.view({batch, count, length, part.size(2)}).transpose(0, 1).contiguous(), caller)
      .wait();
  return sum.to(part.scalar_type());
}

struct Into : torch::autograd::Function<Into> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, comm::Group* group, bool by_sequence) {
    keep(context, *group, by_sequence);
    return by_sequence ? all_tokens(hidden, *group, kStates) : hidden.view_as(hidden);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    auto& group = group_of(context);
    const bool by_sequence = context->saved_data.at("by_sequence").toBool();
    return {by_sequence ? own_sum(upstream[0].contiguous(), group, kGradients) : sum_of(upstream[0], group, kGradients),
            {},
            {}};
  }
};

struct OutOf : torch::autograd::Function<OutOf> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& part, comm::Group* group, bool by_sequence) {
    keep(context, *group, by_sequence);
    return by_sequence ? own_sum(part.contiguous(), *group, kStates) : sum_of(part, *group, kStates);
  }
  static variable_list backward(AutogradContext* context, const variable_list& upstream) {
    const bool by_sequence = context->saved_data.at("by_sequence").toBool();
    return {by_sequence ? all_tokens(upstream[0], group_of(context), kGradients) : upstream[0], {}, {}};
  }
};

}  // namespace

at::Tensor TensorShards::into(const at::Tensor& hidden, bool by_sequence) {
  return Into::apply(hidden, &group_, by_sequence);
}

at::Tensor TensorShards::out_of(const at::Tensor& part, bool by_sequence) {
  return OutOf::apply(part, &group_, by_sequence);
}

at::Tensor TensorShards::gather(const at::Tensor& own) {
  auto sizes = own.sizes().vec();
  sizes.insert(sizes.begin(), group_.size());
  const auto all = at::empty(sizes, own.options().requires_grad(false));
  group_.all_gather(all, own.detach().contiguous(), "logits").wait();
  return all;
}

}  // namespace hyperion::parallel
