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

#include "hyperion/base/error.h"
#include "hyperion/kernels/bias_sums.h"
#include "hyperion/kernels/part_sums.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

const char* approximation(Activation kind) { return kind == Activation::gelu_tanh ? "tanh" : "none"; }

std::vector<int64_t> output_shape(const at::Tensor& input, Activation kind) {
  auto shape = input.sizes().vec();
  if (kind == Activation::gated_silu) shape.back() /= 2;
  return shape;
}

void check_bias(const at::Tensor& input, Activation kind, const at::Tensor& bias) {
  HYPERION_CHECK(!bias.defined() || (kind != Activation::gated_silu && bias.numel() == input.size(-1)),
                 "a bias is as wide as the input, of an elementwise activation");
}

at::Tensor biased(const at::Tensor& input, const at::Tensor& bias) { return bias.defined() ? input.add(bias) : input; }

ActivationGradients activation_on_cpu(const at::Tensor& input, const at::Tensor& upstream, Activation kind,
                                      bool with_value) {
  if (kind != Activation::gated_silu)
    return {at::gelu_backward(upstream, input, approximation(kind)),
            with_value ? at::gelu(input, approximation(kind)) : at::Tensor()};
  const auto halves = input.chunk(2, -1);
  const auto silu = at::silu(halves[0]);
  return {at::cat({at::silu_backward(upstream.mul(halves[1]), halves[0]), upstream.mul(silu)}, -1),
          silu.mul(halves[1])};
}

struct Activated : torch::autograd::Function<Activated> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const std::optional<at::Tensor>& bias, int64_t kind) {
    context->save_for_backward({input, or_none(bias)});
    context->saved_data["kind"] = kind;
    context->saved_data["sums"] = bias_sums_requested(input);
    return activate(input, static_cast<Activation>(kind), or_none(bias));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& upstream) {
    const auto kind = static_cast<Activation>(context->saved_data.at("kind").toInt());
    const auto kept = context->get_saved_variables();
    const bool of_bias = kept[1].defined() && context->needs_input_grad(1);
    const bool wanted = !of_bias && context->saved_data.at("sums").toBool();
    const auto found = activation_gradients(kept[0], upstream[0], kind, {.sums = of_bias || wanted}, kept[1]);
    if (wanted) leave_bias_sums(found.input, found.sums);
    return {found.input, of_bias ? found.sums : at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor activate(const at::Tensor& given, Activation kind, const at::Tensor& bias) {
  check_bias(given, kind, bias);
  if (!given.is_cuda()) return activation_reference(given, kind, bias);
  const auto input = given.contiguous(), added = bias.defined() ? bias.contiguous() : bias;
  auto output = at::empty(output_shape(input, kind), input.options());
  const int64_t width = output.size(-1), rows = width == 0 ? 0 : output.numel() / width;
  with_type(input.scalar_type(), [&]<class T>(T) {
    on_gpu([&] {
      activation_forward_gpu(
          kind, ActivationForward<T>{pointer<T>(input), pointer<T>(output), rows, width, pointer<T>(added)},
          stream_of(input));
    });
  });
  return output;
}

ActivationGradients activation_gradients(const at::Tensor& given, const at::Tensor& upstream, Activation kind,
                                         ActivationWants wants, const at::Tensor& bias) {
  check_bias(given, kind, bias);
  if (!given.is_cuda() || given.numel() == 0) {
    auto out = activation_on_cpu(biased(given, bias), upstream, kind, wants.value);
    if (wants.sums) out.sums = out.input.reshape({-1, given.size(-1)}).sum(0);
    return out;
  }
  const auto input = given.contiguous(), above = upstream.contiguous(),
             added = bias.defined() ? bias.contiguous() : bias;
  ActivationGradients out{wants.in_place ? input : at::empty_like(input),
                          wants.value ? at::empty_like(above) : at::Tensor(), at::Tensor()};
  const int64_t width = above.size(-1), rows = above.numel() / width;
  at::Tensor partial;
  if (wants.sums) {
    out.sums = at::empty({input.size(-1)}, input.options());
    partial = at::empty({on_gpu([&] { return activation_sum_parts(rows, width); }), input.size(-1)},
                        input.options().dtype(at::kFloat));
  }
  int64_t left = 0;
  with_type(input.scalar_type(), [&]<class T>(T) {
    left = on_gpu([&] {
      return activation_backward_gpu(
          kind,
          ActivationBackward<T>{pointer<T>(input), pointer<T>(above), pointer<T>(out.input), pointer<T>(out.again),
                                pointer<T>(out.sums), pointer<float>(partial), rows, width, pointer<T>(added)},
          stream_of(input));
    });
  });
  const PartedSums parted{partial, left, {out.sums}};
  bias.defined() ? add_up(parted) : add_up_for_leaves(parted, {});  // of a bias given here nobody has said it is a leaf
  return out;
}

at::Tensor activation(const at::Tensor& input, Activation kind, const at::Tensor& bias) {
  return Activated::apply(input, maybe(bias), static_cast<int64_t>(kind));
}

at::Tensor activation_reference(const at::Tensor& input, Activation kind, const at::Tensor& bias) {
  if (kind != Activation::gated_silu) return at::gelu(biased(input, bias), approximation(kind));
  const auto halves = input.chunk(2, -1);
  return at::silu(halves[0]).mul(halves[1]);
}

}  // namespace hyperion::kernels
