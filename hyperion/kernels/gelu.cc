#include "hyperion/kernels/gelu.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/gelu.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numbers>

#include "hyperion/kernels/gelu_math.h"

namespace hyperion::kernels {
namespace {

template <class T>
const T* from(const at::Tensor& tensor) {
  return static_cast<const T*>(tensor.const_data_ptr());
}
template <class T>
T* to(const at::Tensor& tensor) {
  return static_cast<T*>(tensor.mutable_data_ptr());
}

struct Gelu : torch::autograd::Function<Gelu> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input) {
    const auto in = input.contiguous(), out = at::empty_like(in);
    context->save_for_backward({in});
    if (in.scalar_type() == at::kFloat) {
      gelu_cpu(from<float>(in), to<float>(out), in.numel());
    } else {
      gelu_cpu(from<Bfloat16>(in), to<Bfloat16>(out), in.numel());
    }
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto in = context->get_saved_variables()[0];
    const auto upstream = gradients[0].contiguous(), out = at::empty_like(in);
    if (in.scalar_type() == at::kFloat) {
      gelu_backward_cpu(from<float>(in), from<float>(upstream), to<float>(out), in.numel());
    } else {
      gelu_backward_cpu(from<Bfloat16>(in), from<Bfloat16>(upstream), to<Bfloat16>(out), in.numel());
    }
    return {out};
  }
};

}  // namespace

at::Tensor gelu(const at::Tensor& input) {
  const bool ours = input.is_cpu() && (input.scalar_type() == at::kFloat || input.scalar_type() == at::kBFloat16);
  return ours ? Gelu::apply(input) : gelu_reference(input);
}

at::Tensor gelu_reference(const at::Tensor& input) { return at::gelu(input, "tanh"); }

at::Tensor gelu_erf(const at::Tensor& input) { return at::gelu(input, "none"); }

at::Tensor gelu_erf_reference(const at::Tensor& input) {
  const auto wide = input.to(c10::promoteTypes(input.scalar_type(), at::kFloat));
  return at::erf(wide.mul(std::numbers::sqrt2 / 2)).add(1).mul(wide).mul(0.5).to(input.scalar_type());
}

}  // namespace hyperion::kernels
