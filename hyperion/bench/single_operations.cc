// To add an operation: a function that makes its inputs and both calls at a size, and a line in the list at the end.
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/native_dropout.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "hyperion/bench/operation_shapes.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/fp8.h"
#include "hyperion/blocks/rope.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/batch_norm.h"
#include "hyperion/kernels/cross_entropy.h"
#include "hyperion/kernels/dropout.h"
#include "hyperion/kernels/embedding.h"
#include "hyperion/kernels/nf4.h"
#include "hyperion/kernels/norm.h"
#include "hyperion/kernels/top_k.h"
#include "hyperion/nn/dispatch.h"
#include "hyperion/optim/update.h"

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

// A small layer, GPT-2 and GPT-2 Large.
int64_t parameters_of(const Place& place) {
  return choose<int64_t>(place, {1'000'000, 124'000'000, 774'000'000}, {10'000, 100'000, 1'000'000});
}

// As many tensors as GPT-2 has.
constexpr int64_t kTensors = 148;

std::vector<at::Tensor> parameter_list(const Place& place, at::ScalarType type, double value) {
  std::vector<at::Tensor> list;
  for (int64_t i = 0; i < kTensors; ++i)
    list.push_back(at::full({parameters_of(place) / kTensors}, value, place.options().dtype(type)));
  return list;
}

double elements_of(const std::vector<at::Tensor>& list) {
  double sum = 0;
  for (const auto& tensor : list) sum += static_cast<double>(tensor.numel());
  return sum;
}

Operation adamw(const Place& place) {
  std::vector<optim::UpdateTensors> tensors;
  const auto masters = parameter_list(place, at::kFloat, 1), firsts = parameter_list(place, at::kFloat, 0),
             seconds = parameter_list(place, at::kFloat, 0), gradients = parameter_list(place, place.type, 1e-3),
             weights = place.type == at::kFloat ? masters : parameter_list(place, place.type, 1),
             wide_gradients = place.type == at::kFloat ? gradients : parameter_list(place, at::kFloat, 1e-3);
  for (size_t i = 0; i < masters.size(); ++i)
    tensors.push_back({masters[i], firsts[i], seconds[i], weights[i], gradients[i], 0.1f});
  const auto scale = at::ones({}, place.options().dtype(at::kFloat));
  const auto updates = std::make_shared<optim::Updates>();
  kernels::SmallWrites numbers;
  updates->set(place.device, {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.1f, 0.05f}, numbers);
  numbers.queue();
  const auto ours = [=](const Inputs&) {
    updates->adamw(tensors, scale);
    return at::Tensor();
  };
  // PyTorch's over fp32 weights and gradients: as many bytes as ours with 16-bit ones and a copy to write.
  const std::vector<at::Tensor> steps(masters.size(), at::ones({}, place.options().dtype(at::kFloat)));
  const auto aten = [=](const Inputs&) {
    at::_fused_adamw_(masters, wide_gradients, firsts, seconds, {}, steps, 1e-4, 0.9, 0.95, 0.1, 1e-8, false, false);
    return at::Tensor();
  };
  const double copy = place.type == at::kFloat ? 0 : width_of(place);
  const double elements = elements_of(gradients);
  return {base::with_commas(parameters_of(place)),
          {},
          ours,
          aten,
          {elements * (24 + width_of(place) + copy), 15 * elements},
          {}};
}

Operation global_norm(const Place& place) {
  const auto gradients = parameter_list(place, place.type, 1e-3);
  const auto updates = std::make_shared<optim::Updates>();
  OperationCall ours;
  if (place.gpu()) ours = [=](const Inputs&) { return updates->clip(gradients, 1, 1).norm; };
  const auto aten = [=](const Inputs&) { return at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients))); };
  const double elements = elements_of(gradients);
  return {base::with_commas(parameters_of(place)), {}, ours, aten, {elements * width_of(place), 2 * elements}, {}};
}

Operation nf4_dequantize(const Place& place) {
  const auto table = activations(place);
  const auto packed = kernels::nf4_quantize(random(place, {table.rows, table.width}));
  const auto elements = static_cast<double>(table.elements());
  return {table.text(),
          {},
          [packed, type = place.type](const Inputs&) { return kernels::nf4_dequantize(packed, type); },
          nullptr,
          {static_cast<double>(packed.bytes()) + elements * width_of(place), 3 * elements},
          {}};
}

// Both forms in 8 bits, and the largest size met.
Operation fp8_quantise(const Place& place) {
  const auto table = activations(place);
  const auto scales = std::make_shared<blocks::Fp8Scales>(1, place.device, blocks::Fp8Options{});
  const auto elements = static_cast<double>(table.elements());
  const auto values = random(place, {table.rows, table.width});
  scales->next_step();  // from here on no pass is made to look for a scale
  return {table.text(),
          {},
          [scales, values](const Inputs&) {
            return blocks::fp8_matrix(values, blocks::Fp8Linear(*scales, 0), blocks::Fp8Scales::input,
                                      {.straight = true, .transposed = true})
                .straight;
          },
          nullptr,
          {elements * (width_of(place) + 2), 3 * elements},
          {}};
}

struct Vocabulary {
  int64_t texts, length, rows, width;
  double tokens() const { return static_cast<double>(texts * length * width); }
  double table() const { return static_cast<double>(rows * width); }
};
// A small one, GPT-2's and Qwen2.5 3B's.
Vocabulary vocabulary_of(const Place& place) {
  return choose<Vocabulary>(place, {{2, 512, 1000, 512}, {32, 1024, 50304, 768}, {4, 2048, 151936, 2048}},
                            {{2, 16, 100, 32}, {2, 64, 1000, 64}, {4, 128, 4096, 128}});
}

// Tokens and their places. In the backward a gradient of the whole table is written, few rows of it met.
Operation embedding(const Place& place) {
  const auto words = vocabulary_of(place);
  const auto ids = at::randint(words.rows, {words.texts, words.length}, place.options().dtype(at::kLong));
  const double bytes = width_of(place), places = static_cast<double>(words.length * words.width);
  return {format("{} of {} x {}", words.texts * words.length, words.rows, words.width),
          {trained(random(place, {words.rows, words.width})), trained(random(place, {words.length, words.width}))},
          [ids](const Inputs& in) { return kernels::embedding_at(in[0], ids, in[1], 0); },
          [ids](const Inputs& in) { return kernels::embedding_at_reference(in[0], ids, in[1], 0); },
          {(2 * words.tokens() + places) * bytes, words.tokens()},
          {(words.tokens() + words.table() + places) * bytes, 2 * words.tokens()}};
}

double held_vocabulary(const Place& place) {
  const auto words = vocabulary_of(place);
  return 8 * (words.tokens() + words.table()) * width_of(place);
}

struct Mixture {
  int64_t tokens, experts, choices, width;
};
// Small, Qwen2-MoE's and Mixtral's.
Mixture mixture_of(const Place& place) {
  return choose<Mixture>(place, {{1024, 8, 2, 512}, {16384, 60, 4, 2048}, {16384, 8, 2, 4096}},
                         {{32, 4, 2, 32}, {128, 8, 2, 64}, {512, 60, 4, 128}});
}

Operation top_k(const Place& place) {
  const auto mix = mixture_of(place);
  const double logits = static_cast<double>(mix.tokens * mix.experts) * width_of(place);
  const double chosen = static_cast<double>(mix.tokens * mix.choices);
  return {format("{} x {} of {}", mix.tokens, mix.choices, mix.experts),
          {trained(random(place, {mix.tokens, mix.experts}))},
          [mix](const Inputs& in) { return kernels::top_k(in[0], mix.choices, true).second; },
          [mix](const Inputs& in) { return kernels::top_k_reference(in[0], mix.choices, true).second; },
          {logits + 12 * chosen, 8 * static_cast<double>(mix.tokens * mix.experts)},
          {2 * logits + 16 * chosen, 4 * static_cast<double>(mix.tokens * mix.experts)}};
}

// There and back: sorted by expert, copied, and summed with the router's weights.
Operation expert_rows(const Place& place) {
  const auto mix = mixture_of(place);
  const auto chosen = kernels::top_k(random(place, {mix.tokens, mix.experts}), mix.choices, true).first;
  const auto there_and_back = [mix, chosen](nn::TokenDispatcher& dispatcher, const Inputs& in) {
    const auto sent = dispatcher.dispatch(in[0], {chosen, in[1]}, mix.experts, {});
    return sent.combine(sent.rows);
  };
  const double token = static_cast<double>(mix.tokens * mix.width) * width_of(place);
  const double row = token * static_cast<double>(mix.choices);
  return {format("{} x {} of {} x {}", mix.tokens, mix.choices, mix.experts, mix.width),
          {trained(random(place, {mix.tokens, mix.width})),
           trained(at::rand({mix.tokens, mix.choices}, place.options().dtype(at::kFloat)))},
          [=](const Inputs& in) {
            nn::LocalDispatcher here;
            return there_and_back(here, in);
          },
          [=](const Inputs& in) {
            nn::ReferenceDispatcher plain;
            return there_and_back(plain, in);
          },
          {2 * token + 2 * row, 2 * row},
          {2 * token + 3 * row, 4 * row}};
}

double held_mixture(const Place& place) {
  const auto mix = mixture_of(place);
  return 16 * static_cast<double>(mix.tokens * mix.choices * (mix.width + mix.experts)) * width_of(place);
}

double held_images(const Place& place) { return 16 * images_of(place).elements() * width_of(place); }
double held_activations(const Place& place) {
  return 8 * static_cast<double>(activations(place).elements()) * width_of(place);
}
// ATen's keeps the logits, their logarithms and both gradients in fp32.
double held_logits(const Place& place) { return static_cast<double>(logits_of(place).elements()) * 24; }
double held_parameters(const Place& place) { return static_cast<double>(parameters_of(place)) * 24; }
// Quantising goes through fp32.
double held_nf4(const Place& place) { return static_cast<double>(activations(place).elements()) * 64; }

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
      {"embedding", embedding, held_vocabulary},
      {"top_k", top_k, held_mixture},
      {"expert_rows", expert_rows, held_mixture},
      {"batch_norm_relu", batch_norm_relu, held_images},
      {"rope", rope, held_heads},
      {"rope_packed", rope_packed, held_heads},
      {"attention", attention, held_heads},
      {"cross_entropy", cross_entropy, held_logits},
      {"adamw", adamw, held_parameters},
      {"global_norm", global_norm, held_parameters},
      {"nf4_dequantize", nf4_dequantize, held_nf4},
      {"fp8_quantise", fp8_quantise, held_nf4},
  };
}

}  // namespace hyperion::bench
