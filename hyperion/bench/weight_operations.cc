// Operations over all of a model's weights, or whole tables of them; see single_operations.cc.
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/stack.h>

#include "hyperion/bench/operation_shapes.h"
#include "hyperion/blocks/fp8.h"
#include "hyperion/kernels/activations.h"
#include "hyperion/kernels/embedding.h"
#include "hyperion/kernels/nf4.h"
#include "hyperion/kernels/top_k.h"
#include "hyperion/nn/dispatch.h"
#include "hyperion/nn/expert_exchange.h"
#include "hyperion/nn/processes.h"
#include "hyperion/optim/update.h"

namespace hyperion::bench {
namespace {

using base::format;

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
Operation fp8_quantize(const Place& place) {
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

// Whose peers send what this process sends them: what travels costs nothing.
class PeersOfOne final : public nn::ExpertPeers {
 public:
  explicit PeersOfOne(int64_t count) : count_(count) {}
  int64_t count() const override { return count_; }
  int64_t index() const override { return 0; }
  at::Tensor exchange(const at::Tensor& rows, const std::vector<int64_t>& /*sent*/,
                      const std::vector<int64_t>& /*received*/, const char* /*caller*/) override {
    return rows;
  }

 private:
  int64_t count_;
};

// As expert_rows, and rows that came from several processes sorted by expert once more, there and back.
Operation expert_exchange(const Place& place) {
  auto operation = expert_rows(place);
  if (place.shards == 1) return operation;
  operation.aten = nullptr;
  const auto mix = mixture_of(place);
  const auto chosen = kernels::top_k(random(place, {mix.tokens, mix.experts}), mix.choices, true).first;
  operation.ours = [mix, chosen, peers = std::make_shared<PeersOfOne>(place.shards)](const Inputs& in) {
    nn::LocalDispatcher here;
    const auto sent = nn::among_peers(here.dispatch(in[0], {chosen, in[1]}, mix.experts, {}), *peers, true);
    return sent.combine(sent.rows);
  };
  const double row = static_cast<double>(mix.tokens * mix.choices * mix.width) * width_of(place);
  if (mix.experts > place.shards) operation.forward.bytes += 4 * row, operation.backward.bytes += 4 * row;
  return operation;
}

double held_mixture(const Place& place) {
  const auto mix = mixture_of(place);
  return 16 * static_cast<double>(mix.tokens * mix.choices * (mix.width + mix.experts)) * width_of(place);
}

int64_t cut_experts(const Place& place) { return mixture_of(place).experts; }

double held_parameters(const Place& place) { return static_cast<double>(parameters_of(place)) * 24; }
// Quantising goes through fp32.
double held_nf4(const Place& place) { return static_cast<double>(activations(place).elements()) * 64; }

}  // namespace

std::vector<OperationEntry> weight_operations() {
  return {
      {"embedding", embedding, held_vocabulary},
      {"top_k", top_k, held_mixture},
      {"expert_rows", expert_rows, held_mixture},
      {"adamw", adamw, held_parameters},
      {"global_norm", global_norm, held_parameters},
      {"nf4_dequantize", nf4_dequantize, held_nf4},
      {"fp8_quantize", fp8_quantize, held_nf4},
      {"expert_exchange", expert_exchange, held_mixture, false, cut_experts, "ep"},
  };
}

}  // namespace hyperion::bench
