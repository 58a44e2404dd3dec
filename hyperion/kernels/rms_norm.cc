#include "hyperion/kernels/rms_norm.h"

#include <ATen/ops/rsqrt.h>
#include <torch/csrc/autograd/custom_function.h>

namespace hyperion::kernels {
namespace {

at::Tensor inverse_rms(const at::Tensor& wide, double epsilon) {
  return at::rsqrt(wide.square().mean(-1, /*keepdim=*/true).add(epsilon));
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, double epsilon) {
    auto wide = input.to(at::kFloat);
    const auto scale = inverse_rms(wide, epsilon);
    context->save_for_backward({input, weight, scale});
    return wide.mul(scale).to(input.scalar_type()).mul(weight);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const auto &input = saved[0], &weight = saved[1], &scale = saved[2];
    const auto gradient = upstream[0].to(at::kFloat), normal = input.to(at::kFloat).mul(scale);
    at::Tensor of_weight;
    if (context->needs_input_grad(1))
      of_weight =
          gradient.mul(normal.to(input.scalar_type())).reshape({-1, weight.size(0)}).sum(0).to(weight.scalar_type());
    const auto of_normal = gradient.mul(weight);
    const auto along = of_normal.mul(normal).mean(-1, /*keepdim=*/true);
    return {of_normal.sub(normal.mul(along)).mul(scale).to(input.scalar_type()), of_weight, at::Tensor()};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& input, const at::Tensor& weight, double epsilon) {
  return RmsNorm::apply(input, weight, epsilon);
}

at::Tensor rms_norm_reference(const at::Tensor& input, const at::Tensor& weight, double epsilon) {
  const auto wide = input.to(at::kFloat);
  return wide.mul(inverse_rms(wide, epsilon)).to(input.scalar_type()).mul(weight);
}

}  // namespace hyperion::kernels
