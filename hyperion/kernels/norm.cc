#include "hyperion/kernels/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/rsqrt.h>
#include <torch/csrc/autograd/custom_function.h>

#include "hyperion/kernels/norm_math.h"
#include "hyperion/kernels/part_sums.h"
#include "hyperion/kernels/tensor_forms.h"
#include "hyperion/kernels/typed.h"

namespace hyperion::kernels {
namespace {

int64_t rows_of(const at::Tensor& input) { return input.size(-1) == 0 ? 0 : input.numel() / input.size(-1); }

at::Tensor inverse_rms(const at::Tensor& wide, double epsilon) {
  return at::rsqrt(wide.square().mean(-1, /*keepdim=*/true).add(epsilon));
}

Normalized norm_on_cpu(const at::Tensor& input, const NormWeights& weights) {
  if (weights.bias.defined()) {
    auto [output, mean, inverse] =
        at::native_layer_norm(input, {input.size(-1)}, weights.weight, weights.bias, weights.epsilon);
    return {output, {mean, inverse}};
  }
  const auto wide = input.to(at::kFloat), inverse = inverse_rms(wide, weights.epsilon);
  return {wide.mul(inverse).to(input.scalar_type()).mul(weights.weight), {at::Tensor(), inverse}};
}

// `output`: where it goes; undefined: nowhere.
Normalized norm_on_gpu(const at::Tensor& input, const NormWeights& weights, const at::Tensor& output) {
  const int64_t rows = rows_of(input);
  const auto fp32 = input.options().dtype(at::kFloat);
  const bool layer = weights.bias.defined();
  Normalized out{output, {layer ? at::empty({rows}, fp32) : at::Tensor(), at::empty({rows}, fp32)}};
  with_type(input.scalar_type(), [&]<class T>(T) {
    on_gpu([&] {
      norm_forward_gpu(NormForward<T>{pointer<T>(input), pointer<T>(weights.weight), pointer<T>(weights.bias),
                                      pointer<T>(out.output), pointer<float>(out.statistics.mean),
                                      pointer<float>(out.statistics.inverse), rows, input.size(-1),
                                      static_cast<float>(weights.epsilon), /*known=*/false,
                                      output.defined() && output.dim() == 2 ? output.stride(0) : input.size(-1)},
                       stream_of(input));
    });
  });
  return out;
}

at::Tensor again_on_cpu(const at::Tensor& input, const NormWeights& weights, const NormStatistics& statistics) {
  if (weights.bias.defined()) return norm_on_cpu(input, weights).output;
  return input.to(at::kFloat).mul(statistics.inverse).to(input.scalar_type()).mul(weights.weight);
}

NormGradients gradients_on_cpu(const at::Tensor& input, const NormWeights& weights, const NormStatistics& statistics,
                               const at::Tensor& upstream, const at::Tensor& residual, const NormExtras& extras) {
  NormGradients out;
  if (weights.bias.defined()) {
    std::tie(out.input, out.weight, out.bias) =
        at::native_layer_norm_backward(upstream, input, {input.size(-1)}, statistics.mean, statistics.inverse,
                                       weights.weight, weights.bias, {true, true, true});
  } else {
    const auto gradient = upstream.to(at::kFloat), normal = input.to(at::kFloat).mul(statistics.inverse);
    out.weight = gradient.mul(normal.to(input.scalar_type()))
                     .reshape({-1, input.size(-1)})
                     .sum(0)
                     .to(weights.weight.scalar_type());
    const auto of_normal = gradient.mul(weights.weight);
    const auto along = of_normal.mul(normal).mean(-1, /*keepdim=*/true);
    out.input = of_normal.sub(normal.mul(along)).mul(statistics.inverse).to(input.scalar_type());
  }
  if (residual.defined()) out.input = out.input.add(residual);
  if (extras.output) out.output = again_on_cpu(input, weights, statistics);
  if (extras.sums) out.sums = out.input.reshape({-1, input.size(-1)}).sum(0);
  return out;
}

struct Norm : torch::autograd::Function<Norm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& input,
                            const at::Tensor& weight, const std::optional<at::Tensor>& bias, double epsilon) {
    const NormWeights weights{weight, or_none(bias), epsilon};
    const auto normal = normalize(input, weights);
    context->save_for_backward({input, weight, weights.bias, normal.statistics.mean, normal.statistics.inverse});
    context->saved_data["epsilon"] = epsilon;
    return normal.output;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& upstream) {
    const auto saved = context->get_saved_variables();
    const NormWeights weights{saved[1], saved[2], context->saved_data.at("epsilon").toDouble()};
    const auto out = norm_gradients(saved[0], weights, {saved[3], saved[4]}, upstream[0], at::Tensor());
    return {out.input, out.weight, out.bias, at::Tensor()};
  }
};

}  // namespace

Normalized normalize(const at::Tensor& given, const NormWeights& weights) {
  if (!given.is_cuda()) return norm_on_cpu(given, weights);
  const auto input = given.contiguous();
  return norm_on_gpu(input, weights, at::empty_like(input));
}

Normalized normalize_into(const at::Tensor& out, const at::Tensor& given, const NormWeights& weights) {
  if (given.is_cuda()) return norm_on_gpu(given.contiguous(), weights, out);
  auto normal = norm_on_cpu(given, weights);
  out.copy_(as_rows(normal.output));
  normal.output = out;
  return normal;
}

NormStatistics norm_statistics(const at::Tensor& given, const NormWeights& weights) {
  return given.is_cuda() ? norm_on_gpu(given.contiguous(), weights, {}).statistics
                         : norm_on_cpu(given, weights).statistics;
}

at::Tensor normalize_again(const at::Tensor& given, const NormWeights& weights, const NormStatistics& statistics) {
  if (!given.is_cuda()) return again_on_cpu(given, weights, statistics);
  const auto input = given.contiguous(), output = at::empty_like(input);
  with_type(input.scalar_type(), [&]<class T>(T) {
    on_gpu([&] {
      norm_forward_gpu(
          NormForward<T>{pointer<T>(input), pointer<T>(weights.weight), pointer<T>(weights.bias), pointer<T>(output),
                         pointer<float>(statistics.mean), pointer<float>(statistics.inverse), rows_of(input),
                         input.size(-1), /*epsilon=*/0, /*known=*/true, input.size(-1)},
          stream_of(input));
    });
  });
  return output;
}

NormGradients norm_gradients(const at::Tensor& given, const NormWeights& weights, const NormStatistics& statistics,
                             const at::Tensor& upstream, const at::Tensor& residual, const NormExtras& extras) {
  if (!given.is_cuda() || given.numel() == 0)
    return gradients_on_cpu(given, weights, statistics, upstream, residual, extras);
  const auto input = given.contiguous(), dy = upstream.contiguous();
  const auto added = residual.defined() ? residual.contiguous() : residual;
  const int64_t rows = rows_of(input), width = input.size(-1);
  NormGradients out{at::empty_like(input), at::empty_like(weights.weight),
                    weights.bias.defined() ? at::empty_like(weights.bias) : at::Tensor(),
                    extras.output ? at::empty_like(input) : at::Tensor(),
                    extras.sums ? at::empty({width}, input.options()) : at::Tensor()};
  PartedSums parted{{}, 0, {out.weight}};
  if (out.bias.defined()) parted.sums.push_back(out.bias);
  if (out.sums.defined()) parted.sums.push_back(out.sums);
  const auto sections = static_cast<int64_t>(parted.sums.size());
  parted.partial = at::empty({on_gpu([&] { return norm_backward_parts(rows); }), sections, width},
                             input.options().dtype(at::kFloat));
  with_type(input.scalar_type(), [&]<class T>(T) {
    parted.parts = on_gpu([&] {
      return norm_backward_gpu(
          NormBackward<T>{pointer<T>(input), pointer<T>(weights.weight), pointer<T>(weights.bias), pointer<T>(dy),
                          pointer<T>(added), pointer<float>(statistics.mean), pointer<float>(statistics.inverse),
                          pointer<T>(out.input), pointer<T>(out.output), extras.sums, pointer<float>(parted.partial),
                          rows, width},
          stream_of(input));
    });
  });
  if (!extras.weights && !extras.sums) {
    out.weight.reset(), out.bias.reset();
    return out;
  }
  const auto leaf = [](const at::Tensor& tensor) {
    return !tensor.defined() || (tensor.is_leaf() && tensor.requires_grad());
  };
  const at::Tensor leaves[] = {weights.weight, weights.bias};
  leaf(weights.weight) && leaf(weights.bias)
      ? add_up_for_leaves(parted, at::TensorList(leaves, weights.bias.defined() ? 2 : 1))
      : add_up(parted);
  return out;
}

at::Tensor norm(const at::Tensor& input, const NormWeights& weights) {
  return Norm::apply(input, weights.weight, maybe(weights.bias), weights.epsilon);
}

at::Tensor norm_reference(const at::Tensor& input, const NormWeights& weights) {
  if (weights.bias.defined())
    return at::layer_norm(input, {input.size(-1)}, weights.weight, weights.bias, weights.epsilon);
  const auto wide = input.to(at::kFloat);
  return wide.mul(inverse_rms(wide, weights.epsilon)).to(input.scalar_type()).mul(weights.weight);
}

}  // namespace hyperion::kernels
