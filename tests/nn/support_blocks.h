// Small blocks of the kinds models are made of, and what a pass over them gives.
#pragma once
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "hyperion/nn/activation.h"
#include "hyperion/nn/attention.h"
#include "hyperion/nn/layers.h"
#include "hyperion/nn/saved_bytes.h"

namespace hyperion::nn::testing {

struct Toy {
  int64_t width, heads;
  size_t layer;
};

inline at::Tensor heads_of(const at::Tensor& packed, int64_t heads) {
  return packed.view({packed.size(0), packed.size(1), heads, -1}).transpose(1, 2);
}
inline at::Tensor joined(const at::Tensor& mixed) {
  return mixed.transpose(1, 2).reshape({mixed.size(0), mixed.size(2), -1});
}

// Pre-norm, packed QKV, GELU, dropout on both branches.
class GptBlock final : public Module {
 public:
  explicit GptBlock(const Toy& toy) : toy_(toy) {
    ln_1_ = register_module("ln_1", std::make_shared<LayerNorm>(toy.width));
    ln_2_ = register_module("ln_2", std::make_shared<LayerNorm>(toy.width));
    in_ = register_module("in", std::make_shared<LinearInOut>(toy.width, 3 * toy.width, Init::normal(0.2)));
    out_ = register_module("out", std::make_shared<LinearInOut>(toy.width, toy.width, Init::normal(0.2)));
    up_ = register_module("up", std::make_shared<LinearInOut>(toy.width, 4 * toy.width, Init::normal(0.2)));
    down_ = register_module("down", std::make_shared<LinearInOut>(4 * toy.width, toy.width, Init::normal(0.2)));
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto packed = run(*in_, run(*ln_1_, input, pass), pass)
                            .view({input.size(0), input.size(1), 3, toy_.heads, -1})
                            .permute({2, 0, 3, 1, 4});
    const auto mixed = joined(attend(packed[0], packed[1], packed[2], toy_.layer, pass));
    const auto middle = input.add(dropout(run(*out_, mixed, pass), 0.2, "attn", toy_.layer, pass));
    const auto inner = gelu(run(*up_, run(*ln_2_, middle, pass), pass), pass);
    return middle.add(dropout(run(*down_, inner, pass), 0.2, "mlp", toy_.layer, pass));
  }

 private:
  Toy toy_;
  std::shared_ptr<LayerNorm> ln_1_, ln_2_;
  std::shared_ptr<LinearInOut> in_, out_, up_, down_;
};

// RMSNorm, rotary positions, shared key heads, gated SiLU; leaves a tensor in the pass as a mixture of experts does.
class LlamaBlock final : public Module {
 public:
  explicit LlamaBlock(const Toy& toy) : toy_(toy) {
    norm_1_ = register_module("norm_1", std::make_shared<RmsNorm>(toy.width, 1e-6));
    norm_2_ = register_module("norm_2", std::make_shared<RmsNorm>(toy.width, 1e-6));
    const int64_t keys = toy.width / toy.heads;
    q_ = add("q", toy.width, toy.width), k_ = add("k", toy.width, keys), v_ = add("v", toy.width, keys);
    o_ = add("o", toy.width, toy.width), gate_ = add("gate", toy.width, 3 * toy.width);
    up_ = add("up", toy.width, 3 * toy.width), down_ = add("down", 3 * toy.width, toy.width);
    router_ = add("router", toy.width, 3);
  }
  at::Tensor forward(const at::Tensor& input, Pass& pass) override {
    const auto first = run(*norm_1_, input, pass);
    const auto q = rotate(heads_of(run(*q_, first, pass), toy_.heads), pass);
    const auto k = rotate(heads_of(run(*k_, first, pass), 1), pass);
    const auto mixed = joined(attend(q, k, heads_of(run(*v_, first, pass), 1), toy_.layer, pass));
    const auto middle = input.add(run(*o_, mixed, pass));
    const auto second = run(*norm_2_, middle, pass);
    pass.router_logits.push_back(run(*router_, second, pass));
    const auto weight = pass.router_logits.back().softmax(-1).narrow(-1, 0, 1);
    const auto inner = gated_silu(run(*gate_, second, pass), run(*up_, second, pass), pass);
    return middle.add(run(*down_, dropout(inner, 0.1, "inner", toy_.layer, pass), pass).mul(weight));
  }

 private:
  std::shared_ptr<Linear> add(const char* name, int64_t in, int64_t out) {
    return register_module(name, std::make_shared<Linear>(in, out, false, Init::normal(0.2)));
  }
  Toy toy_;
  std::shared_ptr<RmsNorm> norm_1_, norm_2_;
  std::shared_ptr<Linear> q_, k_, v_, o_, gate_, up_, down_, router_;
};

template <class Block>
std::shared_ptr<Stack> stack_of(int64_t count, int64_t width = 24, int64_t heads = 3) {
  auto stack = std::make_shared<Stack>(count, [&](int64_t i) {
    return std::make_shared<Block>(Toy{width, heads, static_cast<size_t>(i)});
  });
  stack->initialise(7);
  return stack;
}

struct Outcome {
  std::vector<at::Tensor> tensors;  // the output, the input's gradient if any, every parameter's
  int64_t bytes = 0;                // of activations held between forward and backward
};

inline void expect_same(const Outcome& value, const Outcome& reference) {
  ASSERT_EQ(value.tensors.size(), reference.tensors.size());
  for (size_t i = 0; i < value.tensors.size(); ++i) {
    ASSERT_EQ(value.tensors[i].defined(), reference.tensors[i].defined()) << i;
    if (!value.tensors[i].defined()) continue;
    EXPECT_TRUE(value.tensors[i].equal(reference.tensors[i])) << "tensor " << i;
  }
}

inline Pass training_pass(int64_t length, int64_t head_width) {
  Pass pass;
  pass.training = true, pass.seed = 3, pass.step = 4, pass.micro_batch = 2;
  Rotation(head_width, {}).apply_to(pass, 0, at::zeros({1, length}));
  return pass;
}

inline at::Tensor loss_of(const at::Tensor& output, const Pass& pass) {
  auto loss = output.square().mean();
  for (const auto& logits : pass.router_logits) loss = loss.add(logits.logsumexp(-1).square().mean());
  return loss;
}

// Forward and backward of the module over the input, every gradient cleared before; `policy`, where given, lies between
// the meter and what the pass asks for.
inline Outcome trained(Module& module, const at::Tensor& input, Pass pass, SavePolicy* policy = nullptr) {
  for (auto& parameter : module.parameters()) parameter.mutable_grad().reset();
  if (input.requires_grad()) input.mutable_grad().reset();
  SavedBytesMeter meter;
  Outcome outcome;
  at::Tensor loss;
  {
    const SaveScope metered(meter);
    std::optional<SaveScope> scope;
    if (policy != nullptr) scope.emplace(*policy);
    const auto output = module.forward(input, pass);
    outcome.tensors.push_back(output.detach().clone());
    loss = loss_of(output, pass);
  }
  outcome.bytes = meter.bytes();
  loss.backward();
  loss.reset();
  pass = {};
  EXPECT_EQ(meter.bytes(), 0) << "the graph is gone, so is all it held";
  if (input.requires_grad()) outcome.tensors.push_back(input.grad().clone());
  for (const auto& parameter : module.parameters())
    outcome.tensors.push_back(parameter.grad().defined() ? parameter.grad().clone() : at::Tensor());
  return outcome;
}

}  // namespace hyperion::nn::testing
