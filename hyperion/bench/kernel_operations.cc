// To add an operation: a function that makes its inputs and both calls at a size, and a line in the list at the end.
#include "hyperion/bench/kernel_operations.h"

#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

#include "hyperion/base/format.h"
#include "hyperion/kernels/adamw.h"
#include "hyperion/kernels/attention.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/kernels/gelu.h"
#include "hyperion/kernels/nf4.h"
#include "hyperion/kernels/rms_norm.h"
#include "hyperion/kernels/rope.h"

namespace hyperion::bench {
namespace {

using base::format;
using Place = OperationPlace;

template <class T>
T choose(const Place& place, const T (&gpu)[3], const T (&cpu)[3]) {
  return (place.gpu() ? gpu : cpu)[static_cast<int>(place.size)];
}

struct Table {
  int64_t rows, width;
  int64_t elements() const { return rows * width; }
  std::string text() const { return format("{} x {}", rows, width); }
};

double width_of(const Place& place) { return static_cast<double>(at::elementSize(place.type)); }

// Activations of a batch: GPT-2's narrowest, then 64 MiB and 320 MiB in 16 bits.
Table activations(const Place& place) {
  return choose<Table>(place, {{1024, 768}, {16384, 2048}, {32768, 5120}}, {{32, 128}, {256, 512}, {1024, 1024}});
}

double activation_bytes(const Place& place) {
  return static_cast<double>(activations(place).elements()) * width_of(place);
}

at::Tensor random(const Place& place, at::IntArrayRef shape) { return at::randn(shape, place.options()); }
at::Tensor trained(at::Tensor tensor) { return tensor.requires_grad_(true); }

// One input of the activations' shape to one output of it; `reads` and `writes` count tensors of that size.
Operation elementwise(const Place& place, OperationCall ours, OperationCall aten, double forward_flops,
                      double backward_flops) {
  const auto table = activations(place);
  const double bytes = activation_bytes(place), elements = static_cast<double>(table.elements());
  // Forward: in and out. Backward: in, its output's gradient, and the gradient.
  return {table.text(),
          {trained(random(place, {table.rows, table.width}))},
          std::move(ours),
          std::move(aten),
          {2 * bytes, forward_flops * elements},
          {3 * bytes, backward_flops * elements}};
}

Operation gelu(const Place& place) {
  return elementwise(
      place, [](const Inputs& in) { return kernels::gelu(in[0]); },
      [](const Inputs& in) { return at::gelu(in[0], "tanh"); }, 12, 20);
}

Operation gelu_erf(const Place& place) {
  return elementwise(
      place, [](const Inputs& in) { return kernels::gelu_erf(in[0]); },
      [](const Inputs& in) { return at::gelu(in[0]); }, 12, 20);
}

Operation dropout(const Place& place) {
  const kernels::RandomPlace where{base::stream_key(1, "bench"), 1, 0};
  auto operation = elementwise(
      place, [where](const Inputs& in) { return kernels::dropout(in[0], 0.1, where); },
      [](const Inputs& in) { return std::get<0>(at::native_dropout(in[0], 0.1, true)); }, 20, 20);
  operation.backward.bytes = operation.forward.bytes;  // the mask is reckoned again, the input not needed
  return operation;
}

Operation rms_norm(const Place& place) {
  const auto table = activations(place);
  auto operation = elementwise(
      place, [](const Inputs& in) { return kernels::rms_norm(in[0], in[1], 1e-6); },
      [width = table.width](const Inputs& in) { return at::rms_norm(in[0], {width}, in[1], 1e-6); }, 4, 10);
  operation.inputs.push_back(trained(random(place, {table.width})));
  return operation;
}

struct Heads {
  int64_t batch, heads, length, width;
  std::string text() const { return format("{} x {} x {} x {}", batch, heads, length, width); }
  double elements() const { return static_cast<double>(batch * heads * length * width); }
};

// tinyllama-small's, GPT-2's and Qwen2.5 3B's.
Heads heads_of(const Place& place) {
  return choose<Heads>(place, {{8, 8, 128, 64}, {32, 12, 1024, 64}, {4, 16, 2048, 128}},
                       {{1, 2, 32, 32}, {2, 4, 128, 64}, {2, 8, 256, 64}});
}

at::Tensor heads_tensor(const Place& place) {
  const auto heads = heads_of(place);
  return random(place, {heads.batch, heads.heads, heads.length, heads.width});
}

Operation rope(const Place& place) {
  const auto heads = heads_of(place);
  const auto tables =
      kernels::rope_tables(kernels::rope_frequencies(heads.width, {}).to(place.device), 0, heads.length, place.type);
  const auto plain = [tables](const Inputs& in) {
    const auto halves = in[0].chunk(2, -1);
    return in[0].mul(tables.first).add(at::cat({halves[1].neg(), halves[0]}, -1).mul(tables.second));
  };
  const double bytes = heads.elements() * width_of(place);
  return {heads.text(),
          {trained(heads_tensor(place))},
          [tables](const Inputs& in) { return kernels::rope(in[0], tables.first, tables.second); },
          plain,
          {2 * bytes, 3 * heads.elements()},
          {2 * bytes, 3 * heads.elements()}};
}

Operation attention(const Place& place) {
  const auto heads = heads_of(place);
  const double bytes = heads.elements() * width_of(place);
  // Two products of 2 x length x width a query, half of them masked away; five in the backward.
  const double product = heads.elements() * static_cast<double>(heads.length);
  return {heads.text(),
          {trained(heads_tensor(place)), trained(heads_tensor(place)), trained(heads_tensor(place))},
          [](const Inputs& in) { return kernels::causal_attention(in[0], in[1], in[2]); },
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

// A small layer, GPT-2 and GPT-2 Large.
int64_t parameters_of(const Place& place) {
  return choose<int64_t>(place, {1'000'000, 124'000'000, 774'000'000}, {10'000, 100'000, 1'000'000});
}

Operation adamw(const Place& place) {
  const int64_t count = parameters_of(place);
  const auto wide = place.options().dtype(at::kFloat);
  auto master = at::ones({count}, wide), first = at::zeros({count}, wide), second = at::zeros({count}, wide);
  auto weight = place.type == at::kFloat ? master : master.to(place.type);
  auto gradient = at::full({count}, 1e-3, place.options());
  auto wide_gradient = place.type == at::kFloat ? gradient : gradient.to(at::kFloat);
  const auto scale = at::ones({}, wide);
  const kernels::AdamWStep step{1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.05f};
  const auto ours = [=](const Inputs&) {
    kernels::adamw(master, first, second, weight, gradient, scale, step);
    return at::Tensor();
  };
  // PyTorch's over fp32 weights and gradients: as many bytes as ours with 16-bit ones and a copy to write.
  const std::vector<at::Tensor> masters = {master}, gradients = {wide_gradient}, firsts = {first}, seconds = {second},
                                steps = {at::ones({}, wide)};
  const auto aten = [=](const Inputs&) {
    at::_fused_adamw_(masters, gradients, firsts, seconds, {}, steps, 1e-4, 0.9, 0.95, 0.1, 1e-8, false, false);
    return at::Tensor();
  };
  const double copy = place.type == at::kFloat ? 0 : width_of(place);
  const double elements = static_cast<double>(count);
  return {base::with_commas(count), {}, ours, aten, {elements * (24 + width_of(place) + copy), 15 * elements}, {}};
}

Operation nf4_dequantise(const Place& place) {
  const auto table = activations(place);
  const auto packed = kernels::nf4_quantise(random(place, {table.rows, table.width}));
  const double elements = static_cast<double>(table.elements());
  return {table.text(),
          {},
          [packed, type = place.type](const Inputs&) { return kernels::nf4_dequantise(packed, type); },
          nullptr,
          {static_cast<double>(packed.bytes()) + elements * width_of(place), 3 * elements},
          {}};
}

// The feed-forward layer of a GPT-2 by operation: tokens, width and inner width.
struct Mlp {
  int64_t tokens, width, inner;
};
Mlp mlp_of(const Place& place) {
  return choose<Mlp>(place, {{1024, 768, 3072}, {8192, 1280, 5120}, {32768, 1280, 5120}},
                     {{32, 64, 256}, {128, 128, 512}, {256, 256, 1024}});
}

Operation product(const Place& place, int64_t tokens, int64_t in, int64_t out) {
  const double flops = 2.0 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out);
  const double bytes = static_cast<double>(tokens * in + in * out + tokens * out) * width_of(place);
  const auto call = [](const Inputs& inputs) { return at::linear(inputs[0], inputs[1], inputs[2]); };
  return {format("{} x {} -> {}", tokens, in, out),
          {trained(random(place, {tokens, in})), trained(random(place, {out, in})), trained(random(place, {out}))},
          call,
          call,
          {bytes, flops},
          {2 * bytes, 2 * flops},
          /*matrix=*/true};
}

Operation mlp_up(const Place& place) {
  const auto mlp = mlp_of(place);
  return product(place, mlp.tokens, mlp.width, mlp.inner);
}

Operation mlp_down(const Place& place) {
  const auto mlp = mlp_of(place);
  return product(place, mlp.tokens, mlp.inner, mlp.width);
}

Operation mlp_gelu(const Place& place) {
  const auto mlp = mlp_of(place);
  auto operation = gelu(place);
  const double elements = static_cast<double>(mlp.tokens * mlp.inner), bytes = elements * width_of(place);
  operation.shape = format("{} x {}", mlp.tokens, mlp.inner);
  operation.inputs = {trained(random(place, {mlp.tokens, mlp.inner}))};
  operation.forward = {2 * bytes, 12 * elements}, operation.backward = {3 * bytes, 20 * elements};
  return operation;
}

double held_activations(const Place& place) { return 8 * activation_bytes(place); }
double held_heads(const Place& place) { return 16 * heads_of(place).elements() * width_of(place); }
// ATen's keeps the logits, their logarithms and both gradients in fp32.
double held_logits(const Place& place) { return static_cast<double>(logits_of(place).elements()) * 24; }
double held_parameters(const Place& place) { return static_cast<double>(parameters_of(place)) * 24; }
double held_mlp(const Place& place) {
  const auto mlp = mlp_of(place);
  return 8 * static_cast<double>(mlp.tokens * mlp.inner + mlp.width * mlp.inner) * width_of(place);
}
// Quantising goes through fp32.
double held_nf4(const Place& place) { return static_cast<double>(activations(place).elements()) * 64; }

}  // namespace

const char* name_of(Size size) {
  constexpr const char* kNames[] = {"small", "medium", "large"};
  return kNames[static_cast<int>(size)];
}

const std::vector<OperationEntry>& kernel_operations() {
  static const std::vector<OperationEntry> list = {
      {"gelu", gelu, held_activations},
      {"gelu_erf", gelu_erf, held_activations},
      {"dropout", dropout, held_activations},
      {"rms_norm", rms_norm, held_activations},
      {"rope", rope, held_heads},
      {"attention", attention, held_heads},
      {"cross_entropy", cross_entropy, held_logits},
      {"adamw", adamw, held_parameters},
      {"nf4_dequantise", nf4_dequantise, held_nf4},
      {"mlp_up", mlp_up, held_mlp},
      {"mlp_gelu", mlp_gelu, held_mlp},
      {"mlp_down", mlp_down, held_mlp},
  };
  return list;
}

}  // namespace hyperion::bench
