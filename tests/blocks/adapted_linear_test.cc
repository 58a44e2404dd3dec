#include "hyperion/blocks/adapted_linear.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>

#include "hyperion/base/error.h"
#include "hyperion/kernels/activations.h"
#include "tests/blocks/support_block_ops.h"

namespace hyperion::blocks {
namespace {

std::vector<std::pair<Shape, bool>> cross_with_room(const std::vector<Shape>& shapes) {
  std::vector<std::pair<Shape, bool>> list;
  for (const auto& shape : shapes)
    for (const bool with_room : {false, true}) list.emplace_back(shape, with_room);
  return list;
}

class AdaptedLinear : public BlockOperation {
 protected:
  // A weight and a bias that the operation takes without a gradient, in both types of a comparison.
  at::Tensor frozen(at::IntArrayRef shape, at::ScalarType type) const { return random(shape, 0.1).to(type); }
  at::Tensor here(const at::Tensor& tensor) const { return tensor.to(GetParam()); }
  static at::Tensor wide(const at::Tensor& tensor) { return tensor.to(at::kDouble); }
  static at::Tensor changed(const at::Tensor& x, const at::Tensor& a, const at::Tensor& b, double scale) {
    return at::linear(at::linear(x, a), b).mul(scale);
  }
};

// Three linears over one input; the second has no adapter, the third's has another rank and scale.
TEST_P(AdaptedLinear, behind_a_norm_adds_the_change_of_each_linear) {
  in_each_type([&](auto type) {
    for (const auto& [s, with_room] : cross_with_room(kShapes)) {
      SCOPED_TRACE(::testing::Message() << s.width << (with_room ? ", with room" : ""));
      const Tensors w{frozen({s.inner, s.width}, type), frozen({3, s.width}, type), frozen({s.inner, s.width}, type)};
      const Tensors bias{frozen({s.inner}, type), frozen({3}, type), frozen({s.inner}, type)};
      agrees(
          {random({s.batch, s.length, s.width}), random({s.width}), random({4, s.width}, 0.1), random({s.inner, 4}),
           random({2, s.width}, 0.1), random({s.inner, 2})},
          [&](const Tensors& t) -> Tensors {
            FrozenLinears linears{{here(w[0]).clone(), here(w[1]).clone(), here(w[2]).clone()},
                                  {},
                                  {here(bias[0]), here(bias[1]), here(bias[2])},
                                  /*in_out=*/false,
                                  {{t[2], t[3], 2}, {}, {t[4], t[5], 0.5}}};
            if (with_room) linears.room = LaidRoom(linears.weights, {.columns = 6}).around(linears.weights[0]);
            EXPECT_EQ(linears.room.defined(), with_room);
            const auto both = norm_linear(t[0], {t[1], {}, 1e-5}, linears);
            return {both.first, both.second};
          },
          [&](const Tensors& t) -> Tensors {
            const auto x = plain_norm(t[0], t[1], {});
            return {t[0].mul(1), at::cat({at::linear(x, wide(w[0]), wide(bias[0])).add(changed(x, t[2], t[3], 2)),
                                          at::linear(x, wide(w[1]), wide(bias[1])),
                                          at::linear(x, wide(w[2]), wide(bias[2])).add(changed(x, t[4], t[5], 0.5))},
                                         -1)};
          },
          type, /*slack=*/2);
    }
  });
}

TEST_P(AdaptedLinear, without_a_norm_adds_the_change_of_each_linear) {
  in_each_type([&](auto type) {
    for (const auto& [s, with_room] : cross_with_room(kShapes)) {
      SCOPED_TRACE(::testing::Message() << s.width << (with_room ? ", with room" : ""));
      const Tensors w{frozen({s.inner, s.width}, type), frozen({3, s.width}, type)};
      agrees(
          {random({s.batch, s.length, s.width}), random({4, s.width}, 0.1), random({s.inner, 4}),
           random({2, s.width}, 0.1), random({3, 2})},
          [&](const Tensors& t) -> Tensors {
            FrozenLinears linears{{here(w[0]).clone(), here(w[1]).clone()},
                                  {},
                                  {},
                                  /*in_out=*/false,
                                  {{t[1], t[2], 2}, {t[3], t[4], 0.5}}};
            if (with_room) linears.room = LaidRoom(linears.weights, {.columns = 6}).around(linears.weights[0]);
            return {joined_linears(t[0], linears)};
          },
          [&](const Tensors& t) -> Tensors {
            return {at::cat({at::linear(t[0], wide(w[0])).add(changed(t[0], t[1], t[2], 2)),
                             at::linear(t[0], wide(w[1])).add(changed(t[0], t[3], t[4], 0.5))},
                            -1)};
          },
          type, /*slack=*/2);
    }
  });
}

TEST_P(AdaptedLinear, of_an_activation_is_added_to_the_residual) {
  using kernels::Activation;
  in_each_type([&](auto type) {
    for (const auto& s : kShapes)
      for (const auto kind : {Activation::gelu_tanh, Activation::gated_silu}) {
        SCOPED_TRACE(s.width);
        const int64_t packed = kind == Activation::gated_silu ? 2 * s.width : s.width;
        const auto w = frozen({s.width, s.inner}, type), bias = frozen({s.inner}, type);
        agrees(
            {random({s.batch, s.length, packed}), random({s.batch, s.length, s.inner}), random({5, s.width}, 0.1),
             random({s.inner, 5}, 0.3)},
            [&](const Tensors& t) -> Tensors {
              const FrozenLinears linears{{here(w)}, {}, {here(bias)}, /*in_out=*/true, {{t[2], t[3], 1.5}}};
              return {activated_linear_residual(t[0].mul(1), kind, linears, t[1], /*last_use=*/true)};
            },
            [&](const Tensors& t) -> Tensors {
              const auto x = kernels::activation_reference(t[0], kind);
              return {x.matmul(wide(w)).add(wide(bias)).add(changed(x, t[2], t[3], 1.5)).add(t[1])};
            },
            type, /*slack=*/2);
      }
  });
}

// A wide input, as of a block's last linear: its gradient is made with A beneath the weight.
TEST_P(AdaptedLinear, with_room_beneath_makes_the_gradient_of_its_input_at_once) {
  in_each_type([&](auto type) {
    for (const auto& [in, out, rank] : std::vector<std::array<int64_t, 3>>{{64, 16, 8}, {50, 17, 3}, {136, 24, 16}})
      for (const bool with_room : {false, true}) {
        SCOPED_TRACE(::testing::Message() << in << (with_room ? ", with room" : ""));
        const auto w = frozen({out, in}, type);
        agrees(
            {random({2, 9, in}), random({2, 9, out}), random({rank, in}, 0.1), random({out, rank}, 0.3)},
            [&](const Tensors& t) -> Tensors {
              FrozenLinears linears{{here(w).clone()}, {}, {}, /*in_out=*/false, {{t[2], t[3], 1.5}}};
              if (with_room) linears.room = LaidRoom(linears.weights, {.rows = rank}).around(linears.weights[0]);
              return {activated_linear_residual(t[0].mul(1), kernels::Activation::gelu_tanh, linears, t[1], true)};
            },
            [&](const Tensors& t) -> Tensors {
              const auto x = kernels::activation_reference(t[0], kernels::Activation::gelu_tanh);
              return {at::linear(x, wide(w)).add(changed(x, t[2], t[3], 1.5)).add(t[1])};
            },
            type, /*slack=*/2);
      }
  });
}

TEST_P(AdaptedLinear, knows_when_its_weights_have_left_their_room) {
  const Tensors weights{here(random({4, 6})), here(random({3, 6}))};
  const Tensors before{weights[0].clone(), weights[1].clone()};
  const LaidRoom room(weights, {.columns = 5});
  const auto around = room.around(weights[0]);
  ASSERT_TRUE(around.defined());
  EXPECT_GE(around.size(1), 11);
  EXPECT_TRUE(around.narrow(0, 4, 3).narrow(1, 0, 6).equal(before[1]));
  EXPECT_TRUE(weights[0].equal(before[0]) && weights[1].equal(before[1]));
  EXPECT_FALSE(room.around(weights[1]).defined());
  at::Tensor(weights[0]).set_data(before[0]);
  EXPECT_FALSE(room.around(weights[0]).defined());
  EXPECT_FALSE(LaidRoom().around(weights[0]).defined());
}

TEST_P(AdaptedLinear, drops_the_inputs_of_adapters_as_dropout_does) {
  const auto place = [](uint64_t stream) {
    return kernels::RandomPlace{base::stream_key(3, "test" + std::to_string(stream)), 7, 1};
  };
  const int64_t width = 26, inner = 18;
  const auto w = frozen({inner, width}, at::kFloat);
  agrees(
      {random({3, 5, width}), random({width}), random({3, width}), random({inner, 3}), random({2, width}),
       random({inner, 2})},
      [&](const Tensors& t) -> Tensors {
        const FrozenLinears linears{
            {here(w), here(w)}, {}, {}, false, {{t[2], t[3], 2, 0.4, place(0)}, {t[4], t[5], 1, 0.2, place(1)}}};
        const auto both = norm_linear(t[0], {t[1], {}, 1e-5}, linears);
        return {both.first, both.second};
      },
      [&](const Tensors& t) -> Tensors {
        const auto x = plain_norm(t[0], t[1], {});
        const auto part = [&](size_t first, double scale, double p) {
          const auto mask = wide(kernels::dropout(at::ones({3, 5, width}), p, place(first / 4)));
          return at::linear(x, wide(w)).add(changed(x.mul(mask), t[first], t[first + 1], scale));
        };
        return {t[0].mul(1), at::cat({part(2, 2, 0.4), part(4, 1, 0.2)}, -1)};
      },
      at::kFloat);
}

// The second weight of the odd ones begins at no multiple of 16 bytes.
TEST_P(AdaptedLinear, of_4_bits_is_that_of_the_same_weights_whole) {
  for (const auto& [width, inner] : {std::pair<int64_t, int64_t>{64, 40}, {30, 5}})
    for (const bool in_out : {false, true}) {
      const auto shape = in_out ? std::vector<int64_t>{width, inner} : std::vector<int64_t>{inner, width};
      const auto x = here(random({2, 3, width})), norm = here(random({width}));
      const auto a = here(random({4, width})), b = here(random({inner, 4}));
      const auto q = kernels::nf4_quantize(here(random(shape))), k = kernels::nf4_quantize(here(random(shape)));
      const auto whole = [](const kernels::Nf4& packed) { return kernels::nf4_dequantize(packed, at::kFloat); };
      std::vector<Tensors> found;
      for (const bool narrow : {true, false}) {
        const Tensors leaves{x.clone().requires_grad_(), a.clone().requires_grad_(), b.clone().requires_grad_()};
        const FrozenLinears linears{narrow ? Tensors{} : Tensors{whole(q), whole(k)},
                                    narrow ? std::vector{q, k} : std::vector<kernels::Nf4>{},
                                    {},
                                    in_out,
                                    {{leaves[1], leaves[2], 2}, {}}};
        const auto out = norm_linear(leaves[0], {norm, {}, 1e-5}, linears).second;
        out.square().sum().backward();
        found.push_back({out.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()});
      }
      for (size_t i = 0; i < found[0].size(); ++i)
        EXPECT_LT(testing::relative_error(found[0][i], found[1][i]), 1e-5) << width << " " << i;
    }
}

TEST_P(AdaptedLinear, of_another_type_is_refused) {
  const auto x = here(random({2, 8}).to(at::kBFloat16)), weight = here(random({4, 8}).to(at::kBFloat16));
  const FrozenLinears linears{{weight}, {}, {}, false, {{here(random({2, 8})), here(random({4, 2})), 1}}};
  EXPECT_THROW(linear_residual(x, linears, {}), base::Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, AdaptedLinear, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::blocks
