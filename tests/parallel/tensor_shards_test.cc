// Two linears cut among ranks that are threads of this process, against the same that are not cut: what comes out, and
// the gradients of what went in and of every weight, put together again.
#include "hyperion/parallel/tensor_shards.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/stack.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "hyperion/blocks/adapted_linear.h"
#include "hyperion/blocks/block_ops.h"
#include "hyperion/comm/local_transport.h"
#include "hyperion/kernels/activations.h"
#include "tests/support/devices.h"

namespace hyperion::parallel {
namespace {

using kernels::Activation;
using testing::relative_error;
using Tensors = std::vector<at::Tensor>;

struct Shape {
  int64_t samples, length, width, inner;
};
// Odd ones; of many samples and of one, so that they travel in pieces. 6 divides the lengths.
const std::vector<Shape> kShapes{{1, 6, 5, 6}, {3, 12, 13, 24}, {9, 222, 7, 6}, {1, 2058, 6, 12}, {2, 1002, 10, 6}};

at::Tensor own_part(const at::Tensor& whole, int64_t side, const TensorShards& shards) {
  return whole.chunk(shards.count(), side)[static_cast<size_t>(shards.index())];
}

struct Made {
  at::Tensor out;
  Tensors gradients;
};
using Forward = std::function<at::Tensor(const Tensors&)>;

Made made_by(const Tensors& given, at::ScalarType type, const Forward& forward, const at::Tensor& along) {
  Tensors inputs;
  for (const auto& tensor : given) inputs.push_back(tensor.detach().to(type).clone().requires_grad_());
  Made made{forward(inputs), {}};
  made.out.mul(along.to(type)).sum().backward();
  made.out = made.out.detach();
  for (const auto& tensor : inputs) made.gradients.push_back(tensor.grad());
  return made;
}

// The side along which ranks have parts of an input. Or each has all of it, and the same gradient, or a part of its
// sum.
constexpr int64_t kSame = -1, kSummed = -2;

struct Cut {
  Tensors inputs;  // the first: hidden states
  std::vector<int64_t> sides;
  std::function<at::Tensor(const Tensors&, TensorShards&, nn::Travel&)> cut;
  Forward whole;
};

void expect_alike(const Cut& what, int ranks, bool by_sequence, at::ScalarType type) {
  SCOPED_TRACE(::testing::Message() << what.inputs[0].sizes() << (by_sequence ? " by sequence on " : " on ") << ranks
                                    << " in " << c10::toString(type));
  Tensors rounded;
  for (const auto& tensor : what.inputs) rounded.push_back(tensor.to(type));
  auto sides = what.sides;
  if (by_sequence) sides[0] = 1;
  const auto along = at::randn(what.inputs[0].sizes()).to(type);
  const auto expected = made_by(rounded, at::kDouble, what.whole, along);
  auto wires = comm::make_local_transports(ranks);
  std::vector<Made> found(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto place = static_cast<size_t>(rank);
      comm::Group group("layers", std::move(wires[place]));
      TensorShards shards(group);
      Tensors own;
      for (size_t i = 0; i < rounded.size(); ++i)
        own.push_back(sides[i] < 0 ? rounded[i] : own_part(rounded[i], sides[i], shards));
      found[place] = made_by(
          own, type, [&](const Tensors& t) { return what.cut(t, shards, shards.travel(by_sequence)); },
          by_sequence ? own_part(along, 1, shards) : along);
    });
  for (auto& thread : threads) thread.join();
  const double bound = type == at::kFloat ? 2e-6 : 2e-2;
  const auto put_together = [&](int64_t side, const auto& of) {
    Tensors all;
    for (const auto& made : found) all.push_back(of(made));
    return side == kSame ? all[0] : side == kSummed ? at::stack(all).to(at::kFloat).sum(0) : at::cat(all, side);
  };
  EXPECT_LT(relative_error(put_together(sides[0], [](const Made& made) { return made.out; }), expected.out), bound);
  for (size_t i = 0; i < rounded.size(); ++i)
    EXPECT_LT(relative_error(put_together(sides[i], [&](const Made& made) { return made.gradients[i]; }),
                             expected.gradients[i]),
              2 * bound)
        << "gradient " << i;
}

void expect_alike(const std::function<Cut(const Shape&)>& what) {
  for (const auto& shape : kShapes)
    for (const int ranks : {2, 3})
      for (const bool by_sequence : {false, true})
        for (const auto type : {at::kFloat, at::kBFloat16}) expect_alike(what(shape), ranks, by_sequence, type);
}

TEST(TensorShards, linears_whose_states_travel_while_products_are_made_are_those_of_one) {
  for (const bool in_out : {false, true})
    expect_alike([&](const Shape& s) {
      const auto turned = [=](const at::Tensor& weight) { return in_out ? weight.t() : weight; };
      const auto sized = [=](int64_t out, int64_t in) {
        const auto weight = at::randn({out, in}).mul(0.3);
        return in_out ? weight.t().contiguous() : weight;
      };
      const int64_t by_outputs = in_out ? 1 : 0, by_inputs = in_out ? 0 : 1;
      return Cut{{at::randn({s.samples, s.length, s.width}), sized(s.inner, s.width), at::randn({s.inner}),
                  sized(s.width, s.inner)},
                 {kSame, by_outputs, 0, by_inputs},
                 [=](const Tensors& t, TensorShards&, nn::Travel& travel) {
                   const auto packed = blocks::joined_linears(t[0], {{t[1]}, {t[2]}, in_out}, &travel);
                   return blocks::summed_linear(packed, Activation::gelu_tanh, {{t[3]}, {}, in_out}, travel, true);
                 },
                 [=](const Tensors& t) {
                   const auto packed = at::linear(t[0], turned(t[1]), t[2]);
                   return at::linear(kernels::activation_reference(packed, Activation::gelu_tanh), turned(t[3]));
                 }};
    });
}

// As Llama's feed-forward part, with a change of low rank beside each frozen weight.
TEST(TensorShards, frozen_linears_with_adapters_are_those_of_one) {
  expect_alike([](const Shape& s) {
    const auto gate = at::randn({s.inner, s.width}).mul(0.3), up = at::randn({s.inner, s.width}).mul(0.3),
               down = at::randn({s.width, s.inner}).mul(0.3);
    return Cut{{at::randn({s.samples, s.length, s.width}), at::randn({2, s.width}).mul(0.3),
                at::randn({s.inner, 2}).mul(0.3), at::randn({3, s.inner}).mul(0.3), at::randn({s.width, 3}).mul(0.3)},
               {kSame, kSummed, 0, 1, kSummed},
               [=](const Tensors& t, TensorShards& shards, nn::Travel& travel) {
                 const auto own = [&](const at::Tensor& whole, int64_t side) {
                   return own_part(whole, side, shards).to(t[0].scalar_type()).contiguous();
                 };
                 const auto packed = blocks::joined_linears(
                     t[0], {{own(gate, 0), own(up, 0)}, {}, {}, false, {{t[1], t[2], 2}, {}}}, &travel);
                 return blocks::summed_linear(packed, Activation::gated_silu,
                                              {{own(down, 1)}, {}, {}, false, {{t[3], t[4], 0.5}}}, travel, true);
               },
               [=](const Tensors& t) {
                 const auto wide = [&](const at::Tensor& whole) { return whole.to(t[1].scalar_type()); };
                 const auto low = at::linear(at::linear(t[0], t[1]), t[2]).mul(2);
                 const auto packed = at::cat({at::linear(t[0], wide(gate)).add(low), at::linear(t[0], wide(up))}, -1);
                 const auto active = kernels::activation_reference(packed, Activation::gated_silu);
                 return at::linear(active, wide(down)).add(at::linear(at::linear(active, t[3]), t[4]).mul(0.5));
               }};
  });
}

TEST(TensorShards, linears_side_by_side_are_those_of_one) {
  expect_alike([](const Shape& s) {
    const auto weight = [&](int64_t out, int64_t in) { return at::randn({out, in}).mul(0.3); };
    return Cut{{at::randn({s.samples, s.length, s.width}), weight(s.inner, s.width), weight(s.inner, s.width),
                weight(s.width, s.inner)},
               {kSame, 0, 0, 1},
               [](const Tensors& t, TensorShards&, nn::Travel& travel) {
                 const auto packed = blocks::joined_linears(t[0], {{t[1], t[2]}, {}, false}, &travel);
                 return blocks::summed_linear(kernels::activation(packed, Activation::gated_silu), std::nullopt,
                                              {{t[3]}, {}, false}, travel);
               },
               [](const Tensors& t) {
                 const auto packed = at::cat({at::linear(t[0], t[1]), at::linear(t[0], t[2])}, -1);
                 return at::linear(kernels::activation_reference(packed, Activation::gated_silu), t[3]);
               }};
  });
}

}  // namespace
}  // namespace hyperion::parallel
