#include "hyperion/kernels/activations.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/kernels/part_sums.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

const char* approximation(Activation kind) { return kind == Activation::gelu_tanh ? "tanh" : "none"; }

std::vector<int64_t> output_shape(const at::Tensor& input, Activation kind) {
  auto shape = input.sizes().vec();
  if (kind == Activation::gated_silu) shape.back() /= 2;
  return shape;
}

ActivationGradients activation_on_cpu(const at::Tensor& input, const at::Tensor& upstream, Activation kind) {
  if (kind != Activation::gated_silu)
    return {at::gelu_backward(upstream, input, approximation(kind)), at::gelu(input, approximation(kind))};
  const auto halves = input.chunk(2, -1);
  const auto silu = at::silu(halves[0]);
  return {at::cat({at::silu_backward(upstream.mul(halves[1]), halves[0]), upstream.mul(silu)}, -1),
          silu.mul(halves[1])};
}

struct Activated : torch::autograd::Function<Activated> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input, int64_t kind) {
    context->save_for_backward({input});
    context->saved_data["kind"] = kind;
    return activate(input, static_cast<Activation>(kind));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& upstream) {
    const auto kind = static_cast<Activation>(context->saved_data.at("kind").toInt());
    return {activation_gradients(context->get_saved_variables()[0], upstream[0], kind, false).input, at::Tensor()};
  }
};

}  // namespace

at::Tensor activate(const at::Tensor& given, Activation kind) {
  if (!given.is_cuda()) return activation_reference(given, kind);
  const auto input = given.contiguous();
  auto output = at::empty(output_shape(input, kind), input.options());
  const int64_t width = output.size(-1), rows = width == 0 ? 0 : output.numel() / width;
  with_type(input.scalar_type(), [&]<class T>(T) {
    activation_forward_gpu(kind, ActivationForward<T>{pointer<T>(input), pointer<T>(output), rows, width},
                           stream_of(input));
  });
  return output;
}

ActivationGradients activation_gradients(const at::Tensor& given, const at::Tensor& upstream, Activation kind,
                                         bool with_value, bool with_sums, bool in_place) {
  if (!given.is_cuda() || given.numel() == 0) {
    auto out = activation_on_cpu(given, upstream, kind);
    if (with_sums) out.sums = out.input.reshape({-1, given.size(-1)}).sum(0);
    return out;
  }
  const auto input = given.contiguous(), above = upstream.contiguous();
  ActivationGradients out{in_place ? input : at::empty_like(input), with_value ? at::empty_like(above) : at::Tensor(),
                          at::Tensor()};
  const int64_t width = above.size(-1), rows = above.numel() / width;
  at::Tensor partial;
  if (with_sums) {
    out.sums = at::empty({input.size(-1)}, input.options());
    partial = at::empty({activation_sum_parts(rows, width), input.size(-1)}, input.options().dtype(at::kFloat));
  }
  int64_t left = 0;
  with_type(input.scalar_type(), [&]<class T>(T) {
    left = activation_backward_gpu(
        kind,
        ActivationBackward<T>{pointer<T>(input), pointer<T>(above), pointer<T>(out.input), pointer<T>(out.again),
                              pointer<T>(out.sums), pointer<float>(partial), rows, width},
        stream_of(input));
  });
  add_up_for_leaves({partial, left, {out.sums}}, {});
  return out;
}

at::Tensor activation(const at::Tensor& input, Activation kind) {
  return Activated::apply(input, static_cast<int64_t>(kind));
}

at::Tensor activation_reference(const at::Tensor& input, Activation kind) {
  if (kind != Activation::gated_silu) return at::gelu(input, approximation(kind));
  const auto halves = input.chunk(2, -1);
  return at::silu(halves[0]).mul(halves[1]);
}

}  // namespace hyperion::kernels
