// Products with what surrounds them: the feed-forward layer of a GPT-2 by operation, attention of packed heads, and the
// loss with the product before it. PyTorch's side is the same maths in its own operations.
#include <ATen/ops/add.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/stack.h>

#include <memory>
#include <optional>

#include "hyperion/bench/operation_shapes.h"
#include "hyperion/blocks/attention.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/kernels/norm.h"
#include "hyperion/nn/context.h"
#include "hyperion/nn/processes.h"

namespace hyperion::bench {
namespace {

using base::format;
using kernels::Activation;

// The least a product of [tokens, in] with [in, out] moves and reckons; the backward is two of them.
void cost_of_product(Operation& operation, const Place& place, int64_t tokens, int64_t in, int64_t out) {
  const double flops = 2.0 * static_cast<double>(tokens) * static_cast<double>(in) * static_cast<double>(out);
  const double bytes = static_cast<double>(tokens * in + in * out + tokens * out) * width_of(place);
  operation.forward = {bytes, flops}, operation.backward = {2 * bytes, 2 * flops};
  operation.shape = format("{} x {} -> {}", tokens, in, out);
  operation.matrix = true;
}

Operation mlp_norm_up(const Place& place) {
  const auto mlp = mlp_of(place);
  const int64_t inner = mlp.inner / place.shards;
  Operation operation;
  cost_of_product(operation, place, mlp.tokens, mlp.width, inner);
  operation.inputs = {trained(random(place, {mlp.tokens, mlp.width})), trained(random(place, {mlp.width})),
                      trained(random(place, {mlp.width})), matrix(place, inner, mlp.width),
                      trained(random(place, {inner}))};
  operation.ours = [cut = place.shards > 1](const Inputs& in) {
    const kernels::NormWeights norm{in[1], in[2], 1e-5};
    if (!cut) return blocks::norm_linear(in[0], norm, {{in[3]}, {in[4]}, false}).second;
    return blocks::joined_linears(kernels::norm(in[0], norm), {{in[3]}, {in[4]}, false});
  };
  operation.aten = [width = mlp.width](const Inputs& in) {
    return at::linear(at::layer_norm(in[0], {width}, in[1], in[2], 1e-5), in[3], in[4]);
  };
  return operation;
}

// gelu(x W + b): the bias in the product's epilogue and GELU in a pass of its own, as models run it, or the product
// alone and both in one pass.
Operation up_gelu(const Place& place, OperationCall ours) {
  const auto mlp = mlp_of(place);
  Operation operation;
  cost_of_product(operation, place, mlp.tokens, mlp.width, mlp.inner);
  operation.inputs = {trained(random(place, {mlp.tokens, mlp.width})), matrix(place, mlp.inner, mlp.width),
                      trained(random(place, {mlp.inner}))};
  operation.ours = std::move(ours);
  operation.aten = [](const Inputs& in) { return at::gelu(at::linear(in[0], in[1], in[2]), "tanh"); };
  return operation;
}

Operation mlp_up_bias_gelu(const Place& place) {
  return up_gelu(place, [](const Inputs& in) {
    return run_gelu(blocks::linear_residual(in[0], {{in[1]}, {in[2]}, false}, {}));
  });
}

Operation mlp_up_then_bias_gelu(const Place& place) {
  return up_gelu(place, [](const Inputs& in) {
    return run_gelu(blocks::linear_residual(in[0], {{in[1]}, {}, false}, {}), in[2]);
  });
}

// Out of a shard comes a part of a sum, before bias and residual.
Operation onto_residual(const Place& place, int64_t in, std::optional<Activation> activation) {
  const auto mlp = mlp_of(place);
  const int64_t own = in / place.shards;
  const bool cut = place.shards > 1;
  Operation operation;
  cost_of_product(operation, place, mlp.tokens, own, mlp.width);
  operation.inputs = {trained(random(place, {mlp.tokens, own})), matrix(place, mlp.width, own)};
  if (!cut) {
    operation.inputs.push_back(trained(random(place, {mlp.width})));
    operation.inputs.push_back(trained(random(place, {mlp.tokens, mlp.width})));
  }
  operation.ours = [cut, activation](const Inputs& in) {
    const blocks::Linears linears{{in[1]}, cut ? Inputs{} : Inputs{in[2]}, false};
    const auto residual = cut ? at::Tensor() : in[3];
    return activation ? blocks::activated_linear_residual(in[0], *activation, linears, residual)
                      : blocks::linear_residual(in[0], linears, residual);
  };
  operation.aten = [cut, activation](const Inputs& in) {
    const auto from = activation ? at::gelu(in[0], "tanh") : in[0];
    return cut ? at::linear(from, in[1]) : at::add(in[3], at::linear(from, in[1], in[2]));
  };
  return operation;
}

Operation mlp_gelu_down(const Place& place) { return onto_residual(place, mlp_of(place).inner, Activation::gelu_tanh); }
Operation linear_residual(const Place& place) { return onto_residual(place, mlp_of(place).width, std::nullopt); }

Operation packed_attention(const Place& place) {
  auto heads = heads_of(place);
  heads.heads /= place.shards;
  const int64_t width = heads.heads * heads.width;
  const double bytes = heads.elements() * width_of(place);
  const double product = heads.elements() * static_cast<double>(heads.length);
  return {heads.text(),
          {trained(random(place, {heads.batch, heads.length, 3 * width}))},
          [heads](const Inputs& in) {
            return blocks::packed_attention(in[0], {heads.heads, heads.heads, heads.width}, {}, {}, {.causal = true});
          },
          [heads, width](const Inputs& in) {
            const auto parts =
                in[0].view({heads.batch, heads.length, 3 * heads.heads, heads.width}).transpose(1, 2).chunk(3, 1);
            return at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, /*is_causal=*/true)
                .transpose(1, 2)
                .reshape({heads.batch, heads.length, width});
          },
          {4 * bytes, 2 * product},
          {8 * bytes, 5 * product},
          /*matrix=*/true};
}

// Whose neighbours have what this process has: what travels costs nothing.
class RingOfOne final : public nn::Context {
 public:
  explicit RingOfOne(int64_t count) : count_(count) {}
  int64_t count() const override { return count_; }
  int64_t index() const override { return 0; }
  strategy::ContextMethod method() const override { return strategy::ContextMethod::ring; }
  Answer pass_on(const at::Tensor& own, const char* /*caller*/) override {
    return [own] { return own; };
  }
  at::Tensor exchange(const at::Tensor& for_each, const char* /*caller*/) override { return for_each; }
  at::Tensor sum(const at::Tensor& own, const char* /*caller*/) override { return own; }

 private:
  int64_t count_;
};

// Causal attention whole, or all steps of one process of a ring, which reckons as much as any other of it.
Operation ring_attention(const Place& place) {
  const auto heads = heads_of(place);
  const int64_t own = heads.length / place.shards;
  const auto count = static_cast<double>(place.shards);
  const double bytes = heads.elements() * width_of(place) / count;
  const double product = heads.elements() * static_cast<double>(heads.length) / count;
  const auto part = [&] { return trained(random(place, {heads.batch, heads.heads, own, heads.width})); };
  Operation operation;
  operation.shape = format("{} of {}", own, heads.text());
  operation.inputs = {part(), part(), part()};
  operation.forward = {4 * bytes, 2 * product}, operation.backward = {8 * bytes, 5 * product};
  operation.matrix = true;
  if (place.shards == 1) {
    operation.ours = [](const Inputs& in) { return blocks::causal_attention(in[0], in[1], in[2], {}); };
    operation.aten = [](const Inputs& in) {
      return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, /*is_causal=*/true);
    };
    return operation;
  }
  operation.ours = [ring = std::make_shared<RingOfOne>(place.shards), heads](const Inputs& in) {
    nn::Pass pass;
    pass.context = ring.get();
    pass.tokens = strategy::token_cut(strategy::ContextMethod::ring, ring->count(), 0, heads.length);
    return nn::attend_in_context(in[0], in[1], in[2], 0, pass);
  };
  return operation;
}

struct Head {
  int64_t tokens, width, classes;
};
Head head_of(const Place& place) {
  return choose<Head>(place, {{1024, 512, 1000}, {8192, 1280, 50304}, {32768, 768, 50304}},
                      {{64, 32, 256}, {128, 64, 1000}, {256, 128, 4096}});
}

// Of a shard's classes, where all shards bring the same.
Operation linear_cross_entropy(const Place& place) {
  const auto head = head_of(place);
  const int64_t own = head.classes / place.shards;
  Operation operation;
  cost_of_product(operation, place, head.tokens, head.width, own);
  const auto targets = at::randint(own, {head.tokens}, place.options().dtype(at::kLong));
  operation.inputs = {trained(random(place, {head.tokens, head.width})), matrix(place, own, head.width)};
  operation.ours = [targets, count = place.shards, classes = head.classes](const Inputs& in) {
    if (count == 1) return blocks::linear_cross_entropy(in[0], in[1], targets);
    const auto gather = [count](const at::Tensor& one) { return at::stack(Inputs(static_cast<size_t>(count), one)); };
    return blocks::linear_cross_entropy(in[0], in[1], targets, {0, classes, gather});
  };
  operation.aten = [targets](const Inputs& in) {
    return at::cross_entropy_loss(at::linear(in[0], in[1]).to(at::kFloat), targets);
  };
  operation.together = true;
  return operation;
}

double held_mlp(const Place& place) {
  const auto mlp = mlp_of(place);
  return 8 * static_cast<double>(mlp.tokens * (mlp.inner + 3 * mlp.width) + mlp.width * mlp.inner) * width_of(place);
}
double held_head(const Place& place) {
  const auto head = head_of(place);
  return static_cast<double>(head.tokens * head.classes) * 28 + static_cast<double>(head.width * head.classes) * 16;
}

int64_t cut_inner(const Place& place) { return mlp_of(place).inner; }
int64_t cut_width(const Place& place) { return mlp_of(place).width; }
int64_t cut_heads(const Place& place) { return heads_of(place).heads; }
int64_t cut_runs(const Place& place) { return heads_of(place).length / 2; }
int64_t cut_classes(const Place& place) { return head_of(place).classes; }

}  // namespace

std::vector<OperationEntry> block_operations() {
  return {
      {"mlp_norm_up", mlp_norm_up, held_mlp, true, cut_inner},
      {"mlp_up_bias_gelu", mlp_up_bias_gelu, held_mlp, true},
      {"mlp_up_then_bias_gelu", mlp_up_then_bias_gelu, held_mlp, true},
      {"mlp_gelu_down", mlp_gelu_down, held_mlp, true, cut_inner},
      {"linear_residual", linear_residual, held_mlp, true, cut_width},
      {"packed_attention", packed_attention, held_heads, false, cut_heads},
      {"ring_attention", ring_attention, held_heads, false, cut_runs, "cp"},
      {"linear_cross_entropy", linear_cross_entropy, held_head, false, cut_classes},
  };
}

}  // namespace hyperion::bench
