// To add an operation: a function that makes its inputs and both calls at a size, and a line in the list at the end.
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include "hyperion/bench/operation_shapes.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/rope.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/batch_norm.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/kernels/norm.h"

namespace hyperion::bench {
namespace {

using base::format;
using kernels::Activation;

// One input of the activations' shape to one output of it. Forward: in and out. Backward: in, its output's gradient,
// and the gradient. The flops are an element's.
Operation elementwise(const Place& place, OperationCall ours, OperationCall aten, double forward_flops,
                      double backward_flops) {
  const auto table = activations(place);
  const double elements = static_cast<double>(table.elements()), bytes = elements * width_of(place);
  return {table.text(),
          {trained(random(place, {table.rows, table.width}))},
          std::move(ours),
          std::move(aten),
          {2 * bytes, forward_flops * elements},
          {3 * bytes, backward_flops * elements}};
}

Operation gelu(const Place& place) {
  return elementwise(
      place, [](const Inputs& in) { return run_gelu(in[0]); }, [](const Inputs& in) { return at::gelu(in[0], "tanh"); },
      12, 20);
}

Operation gelu_erf(const Place& place) {
  const bool gpu = place.gpu();
  return elementwise(
      place,
      [gpu](const Inputs& in) { return gpu ? kernels::activation(in[0], Activation::gelu_erf) : at::gelu(in[0]); },
      [](const Inputs& in) { return at::gelu(in[0]); }, 12, 20);
}

// Both in one pass; the bias's gradient is summed on the way back.
Operation bias_gelu(const Place& place) {
  auto operation = elementwise(
      place, [](const Inputs& in) { return run_gelu(in[0], in[1]); },
      [](const Inputs& in) { return at::gelu(in[0].add(in[1]), "tanh"); }, 13, 22);
  operation.inputs.push_back(trained(random(place, {activations(place).width})));
  return operation;
}

Operation swiglu(const Place& place) {
  auto operation = elementwise(
      place, [](const Inputs& in) { return kernels::activation(in[0], Activation::gated_silu); },
      [](const Inputs& in) {
        const auto halves = in[0].chunk(2, -1);
        return at::silu(halves[0]).mul(halves[1]);
      },
      3, 6);
  // The output is half as wide, and so is its gradient.
  operation.forward.bytes *= 0.75, operation.backward.bytes *= 5.0 / 6;
  return operation;
}

Operation dropout(const Place& place) {
  const kernels::RandomPlace where{base::stream_key(1, "bench"), 1, 0};
  auto operation = elementwise(
      place, [where](const Inputs& in) { return kernels::dropout(in[0], 0.1, where); },
      [](const Inputs& in) { return std::get<0>(at::native_dropout(in[0], 0.1, true)); }, 20, 20);
  operation.backward.bytes = operation.forward.bytes;  // the mask is reckoned again, the input not needed
  return operation;
}

Operation bias_dropout_residual(const Place& place) {
  const kernels::RandomPlace where{base::stream_key(1, "bench"), 1, 0};
  const auto table = activations(place);
  const double elements = static_cast<double>(table.elements()), bytes = elements * width_of(place);
  // In the backward the residual's gradient is the output's; the input's is written, and read once more for the bias's.
  return {table.text(),
          {trained(random(place, {table.rows, table.width})), trained(random(place, {table.width})),
           trained(random(place, {table.rows, table.width}))},
          [where](const Inputs& in) { return kernels::bias_dropout_residual(in[0], in[1], in[2], 0.1, where); },
          [](const Inputs& in) { return in[2].add(std::get<0>(at::native_dropout(in[0].add(in[1]), 0.1, true))); },
          {3 * bytes, 22 * elements},
          {3 * bytes, 21 * elements}};
}

Operation rms_norm(const Place& place) {
  const int64_t width = activations(place).width;
  auto operation = elementwise(
      place,
      [](const Inputs& in) {
        return kernels::norm(in[0], {in[1], {}, 1e-6});
      },
      [width](const Inputs& in) { return at::rms_norm(in[0], {width}, in[1], 1e-6); }, 4, 10);
  operation.inputs.push_back(trained(random(place, {width})));
  return operation;
}

Operation layer_norm(const Place& place) {
  const int64_t width = activations(place).width;
  auto operation = elementwise(
      place,
      [](const Inputs& in) {
        return kernels::norm(in[0], {in[1], in[2], 1e-5});
      },
      [width](const Inputs& in) { return at::layer_norm(in[0], {width}, in[1], in[2], 1e-5); }, 6, 12);
  for (int i = 0; i < 2; ++i) operation.inputs.push_back(trained(random(place, {width})));
  return operation;
}

struct Images {
  int64_t batch, channels, side;
  double elements() const { return static_cast<double>(batch * channels * side * side); }
};
// A small stage, the first of ResNet-18 on CIFAR, and of ResNet-50 at batch 256.
Images images_of(const Place& place) {
  return choose<Images>(place, {{32, 64, 16}, {256, 64, 32}, {256, 256, 56}}, {{2, 16, 8}, {4, 32, 16}, {8, 64, 32}});
}

Operation batch_norm_relu(const Place& place) {
  const auto images = images_of(place);
  const auto tensor = [&] {
    const auto plain = random(place, {images.batch, images.channels, images.side, images.side});
    return trained(plain.contiguous(at::MemoryFormat::ChannelsLast));
  };
  const auto wide = place.options().dtype(at::kFloat);
  const auto mean = at::zeros({images.channels}, wide), variance = at::ones({images.channels}, wide);
  const double elements = images.elements(), bytes = elements * width_of(place);
  // The input is read for its statistics and again with them; in the backward input and gradient likewise, the second
  // time as it passed the activation, which is the residual's.
  return {format("{0} x {1} x {2} x {2}", images.batch, images.channels, images.side),
          {tensor(), tensor(), trained(at::ones({images.channels}, wide)), trained(at::zeros({images.channels}, wide))},
          [=](const Inputs& in) {
            return kernels::batch_norm_training(in[0], {in[2], in[3], mean, variance, 0.1, 1e-5}, in[1], true);
          },
          [=](const Inputs& in) {
            return at::batch_norm(in[0], in[2], in[3], mean, variance, true, 0.1, 1e-5, true).add(in[1]).relu();
          },
          {4 * bytes, 8 * elements},
          {6 * bytes, 12 * elements}};
}

at::Tensor heads_tensor(const Place& place) {
  const auto heads = heads_of(place);
  return random(place, {heads.batch, heads.heads, heads.length, heads.width});
}

Operation rope(const Place& place) {
  const auto heads = heads_of(place);
  const auto tables =
      blocks::rope_tables(blocks::rope_frequencies(heads.width, {}).to(place.device), 0, heads.length, place.type);
  const auto plain = [tables](const Inputs& in) {
    const auto halves = in[0].chunk(2, -1);
    return in[0].mul(tables.first).add(at::cat({halves[1].neg(), halves[0]}, -1).mul(tables.second));
  };
  const double bytes = heads.elements() * width_of(place);
  return {heads.text(),
          {trained(heads_tensor(place))},
          [tables](const Inputs& in) { return blocks::rope(in[0], tables.first, tables.second); },
          plain,
          {2 * bytes, 3 * heads.elements()},
          {2 * bytes, 3 * heads.elements()}};
}

// As fused blocks do it: queries and keys turn where they lie among the values. PyTorch's is the same out of place.
Operation rope_packed(const Place& place) {
  const auto heads = heads_of(place);
  const auto frequencies = blocks::rope_frequencies(heads.width, {}).to(place.device);
  const auto [cosines, sines] = blocks::rope_tables(frequencies, 0, heads.length, at::kFloat);
  const auto half = [&](const at::Tensor& table) { return table.narrow(1, 0, heads.width / 2).contiguous(); };
  OperationCall ours;
  if (place.gpu())
    ours = [heads, c = half(cosines), s = half(sines)](const Inputs& in) {
      blocks::rotate_packed(in[0], {heads.heads, heads.heads, heads.width}, c, s);
      return in[0];
    };
  const auto plain = [heads, c = cosines.to(place.type), s = sines.to(place.type)](const Inputs& in) {
    const auto both = in[0]
                          .view({heads.batch, heads.length, 3 * heads.heads, heads.width})
                          .narrow(2, 0, 2 * heads.heads)
                          .transpose(1, 2);
    const auto halves = both.chunk(2, -1);
    return both.mul(c).add(at::cat({halves[1].neg(), halves[0]}, -1).mul(s));
  };
  const double bytes = 2 * heads.elements() * width_of(place);
  return {heads.text(),
          {random(place, {heads.batch, heads.length, 3 * heads.heads * heads.width})},
          ours,
          plain,
          {2 * bytes, 6 * heads.elements()},
          {}};
}

Operation attention(const Place& place) {
  const auto heads = heads_of(place);
  const double bytes = heads.elements() * width_of(place);
  // Two products of 2 x length x width a query, half of them masked away; five in the backward.
  const double product = heads.elements() * static_cast<double>(heads.length);
  return {heads.text(),
          {trained(heads_tensor(place)), trained(heads_tensor(place)), trained(heads_tensor(place))},
          [](const Inputs& in) { return blocks::causal_attention(in[0], in[1], in[2]); },
          [](const Inputs& in) {
            return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, /*is_causal=*/true);
          },
          {4 * bytes, 2 * product},
          {8 * bytes, 5 * product},
          /*matrix=*/true};
}

Table logits_of(const Place& place) {
  return choose<Table>(place, {{1024, 1000}, {8192, 50304}, {32768, 50304}}, {{64, 256}, {128, 1000}, {512, 4096}});
}

Operation cross_entropy(const Place& place) {
  const auto table = logits_of(place);
  const auto targets = at::randint(table.width, {table.rows}, place.options().dtype(at::kLong));
  const double elements = static_cast<double>(table.elements()), bytes = elements * width_of(place);
  return {table.text(),
          {trained(random(place, {table.rows, table.width}))},
          [targets](const Inputs& in) { return kernels::cross_entropy(in[0], targets); },
          [targets](const Inputs& in) { return at::cross_entropy_loss(in[0].to(at::kFloat), targets); },
          {bytes, 4 * elements},
          {2 * bytes, 3 * elements}};
}

double held_images(const Place& place) { return 16 * images_of(place).elements() * width_of(place); }
double held_activations(const Place& place) {
  return 8 * static_cast<double>(activations(place).elements()) * width_of(place);
}
// ATen's keeps the logits, their logarithms and both gradients in fp32.
double held_logits(const Place& place) { return static_cast<double>(logits_of(place).elements()) * 24; }
}  // namespace

std::vector<OperationEntry> single_operations() {
  return {
      {"gelu", gelu, held_activations, true},
      {"gelu_erf", gelu_erf, held_activations, true},
      {"bias_gelu", bias_gelu, held_activations, true},
      {"swiglu", swiglu, held_activations, true},
      {"dropout", dropout, held_activations, true},
      {"bias_dropout_residual", bias_dropout_residual, held_activations, true},
      {"rms_norm", rms_norm, held_activations, true},
      {"layer_norm", layer_norm, held_activations, true},
      {"batch_norm_relu", batch_norm_relu, held_images},
      {"rope", rope, held_heads},
      {"rope_packed", rope_packed, held_heads},
      {"attention", attention, held_heads},
      {"cross_entropy", cross_entropy, held_logits},
  };
}

}  // namespace hyperion::bench
