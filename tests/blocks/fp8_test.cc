#include "hyperion/blocks/fp8.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rsqrt.h>

#include <functional>
#include <limits>

#include "hyperion/blocks/block_ops.h"
#include "hyperion/blocks/fp8_math.h"
#include "hyperion/kernels/activations.h"
#include "tests/support/devices.h"

namespace hyperion::blocks {
namespace {

using testing::relative_error;
using Tensors = std::vector<at::Tensor>;

TEST(Fp8Numbers, round_as_the_library_does) {
  const int64_t count = 1 << 16;
  auto values = at::empty({count}, at::kFloat);
  for (int64_t i = 0; i < count; ++i)  // every bf16, and with it what lies between two numbers of 8 bits
    values.data_ptr<float>()[i] = kernels::to_float(kernels::Bfloat16{static_cast<uint16_t>(i)});
  for (const auto type : {Fp8Type::e4m3, Fp8Type::e5m2}) {
    const double limit = fp8_largest(type);
    const auto expected =
        values.clamp(-limit, limit).to(type == Fp8Type::e4m3 ? at::kFloat8_e4m3fn : at::kFloat8_e5m2).contiguous();
    for (int64_t i = 0; i < count; ++i) {
      const float value = values.data_ptr<float>()[i];
      const uint8_t mine = to_fp8(value, type);
      if (std::isnan(value)) {
        EXPECT_EQ(mine & 0x7f, 0x7f);
      } else {
        ASSERT_EQ(mine, static_cast<const uint8_t*>(expected.const_data_ptr())[i]) << value;
      }
    }
  }
}

class Fp8 : public testing::OnDevice {
 protected:
  at::Tensor random(at::IntArrayRef shape, double scale = 1) const {
    return at::randn(shape).mul(scale).to(GetParam(), at::kBFloat16);
  }
  static at::Tensor wide(const at::Tensor& narrow, const at::Tensor& inverse) {
    return narrow.to(at::kFloat).mul(inverse).cpu();
  }
};

const std::vector<std::pair<int64_t, int64_t>> kSides{{16, 16}, {48, 80}, {144, 208}, {272, 1296}};

TEST_P(Fp8, both_forms_and_the_sums_are_those_of_the_values) {
  for (const auto part : {Fp8Scales::input, Fp8Scales::weight, Fp8Scales::gradient})
    for (const auto& [rows, columns] : kSides) {
      SCOPED_TRACE(rows);
      Fp8Scales scales(2, GetParam(), {});
      const Fp8Linear map(scales, 1);
      const auto values = random({rows, columns}, 1e-5);
      const auto made = fp8_matrix(values, map, part, {.straight = true, .transposed = true, .sums = true});
      const double limit = part == Fp8Scales::gradient ? 57344 : 448, largest = values.abs().max().item<double>();
      EXPECT_FLOAT_EQ(made.factor.scale.item<float>(), static_cast<float>(limit / largest));
      EXPECT_FLOAT_EQ(map.largest(part).item<float>(), static_cast<float>(largest));
      const auto narrow = values.cpu().to(at::kFloat).mul(made.factor.scale.cpu()).clamp(-limit, limit);
      const auto expected = narrow.to(made.straight.scalar_type()).to(at::kFloat);
      EXPECT_TRUE(made.straight.cpu().to(at::kFloat).equal(expected));
      EXPECT_TRUE(made.transposed.cpu().to(at::kFloat).equal(expected.t()));
      EXPECT_LT(relative_error(made.sums.cpu(), values.cpu().to(at::kDouble).sum(0)), 1e-2);
      EXPECT_LT(relative_error(wide(made.straight, made.inverse), values.cpu()),
                part == Fp8Scales::gradient ? 7e-2 : 4e-2);
    }
}

TEST_P(Fp8, norms_and_activations_are_rounded_as_they_are_found) {
  for (const auto& [rows, columns] : kSides) {
    SCOPED_TRACE(rows);
    Fp8Scales scales(1, GetParam(), {});
    const Fp8Linear map(scales, 0);
    const auto x = random({rows, 2 * columns}), above = random({rows, columns}), same = random({rows, columns});
    for (const bool layer : {true, false}) {
      const kernels::NormWeights norm{random({columns}), layer ? random({columns}) : at::Tensor(), 1e-5};
      const auto statistics = kernels::norm_statistics(same, norm);
      const auto made = fp8_norm(same, norm, statistics, map, {.straight = true, .transposed = true});
      const auto expected = kernels::normalize(same, norm).output.cpu();
      EXPECT_LT(relative_error(wide(made.straight, made.inverse), expected), 4e-2);
      EXPECT_TRUE(made.transposed.cpu().to(at::kFloat).equal(made.straight.cpu().to(at::kFloat).t()));
    }
    for (const auto kind :
         {kernels::Activation::gelu_tanh, kernels::Activation::gelu_erf, kernels::Activation::gated_silu}) {
      const auto& in = kind == kernels::Activation::gated_silu ? x : same;
      const auto made = fp8_activation(in, kind, map, {.straight = true});
      EXPECT_LT(relative_error(wide(made.straight, made.inverse), kernels::activate(in, kind).cpu()), 4e-2);
      const auto [gradient, again] = fp8_activation_gradient(in, above, kind, map, made.factor);
      const auto expected = kernels::activation_gradients(in, above, kind, {.value = true});
      EXPECT_LT(relative_error(gradient.cpu(), expected.input.cpu()), 5e-3);
      EXPECT_LT(relative_error(wide(again.transposed, again.inverse).t(), expected.again.cpu()), 4e-2);
    }
  }
}

TEST_P(Fp8, products_are_those_of_the_numbers_in_8_bits) {
  Fp8Scales scales(2, GetParam(), {});
  const Fp8Linear one(scales, 0), other(scales, 1);
  for (const auto part : {Fp8Scales::input, Fp8Scales::gradient}) {
    const auto a = fp8_matrix(random({48, 96}, 3), one, part, {.straight = true});
    const auto b = fp8_matrix(random({80, 96}, 0.1), other, Fp8Scales::weight, {.straight = true});
    const auto bias = random({80}), added = random({48, 80});
    const auto out = fp8_gemm({a.straight, a.inverse, b.straight, b.inverse, bias, added}, at::kBFloat16);
    const auto expected =
        wide(a.straight, a.inverse).matmul(wide(b.straight, b.inverse).t()).add(bias.cpu()).add(added.cpu());
    EXPECT_LT(relative_error(out.cpu(), expected), 5e-3);
  }
}

TEST_P(Fp8, scales_follow_the_largest_of_the_steps_before) {
  Fp8Scales scales(1, GetParam(), {.history = 3});
  const Fp8Linear map(scales, 0);
  const auto step = [&](double size) {
    const auto values = at::empty({16, 16}, at::TensorOptions().device(GetParam()).dtype(at::kBFloat16)).fill_(size);
    const auto made = fp8_matrix(values, map, Fp8Scales::input, {.straight = true});
    const double back = wide(made.straight, made.inverse).max().item<double>();
    scales.next_step();
    return back;
  };
  EXPECT_NEAR(step(2), 2, 1e-6);  // nothing is known yet: the scale is the matrix's own
  EXPECT_FLOAT_EQ(map.scale(Fp8Scales::input).item<float>(), 224);
  EXPECT_NEAR(step(8), 2, 1e-6);  // beyond what the scale foresaw: held at the largest
  EXPECT_NEAR(step(8), 8, 1e-6);
  EXPECT_FLOAT_EQ(map.scale(Fp8Scales::input).item<float>(), 56);
  step(1), step(1);
  EXPECT_FLOAT_EQ(map.scale(Fp8Scales::input).item<float>(), 56);
  step(1);  // the 8 is forgotten
  EXPECT_FLOAT_EQ(map.scale(Fp8Scales::input).item<float>(), 448);
  EXPECT_FLOAT_EQ(map.scale(Fp8Scales::gradient).item<float>(), 1);  // never met

  Fp8Scales loaded(1, GetParam(), {.history = 3});
  step(4);
  loaded.history().copy_(scales.history());
  loaded.history_changed();
  EXPECT_FLOAT_EQ(Fp8Linear(loaded, 0).scale(Fp8Scales::input).item<float>(), 112);
  EXPECT_FALSE(Fp8Linear(loaded, 0).measured_first());
}

TEST_P(Fp8, current_scales_follow_each_matrix) {
  Fp8Scales scales(1, GetParam(), {Fp8Scale::current});
  const Fp8Linear map(scales, 0);
  for (const double size : {3.0, 0.5, 7.0}) {
    const auto made = fp8_matrix(random({16, 32}, size), map, Fp8Scales::input, {.straight = true});
    EXPECT_FLOAT_EQ(made.straight.to(at::kFloat).abs().max().item<float>(), 448);
    scales.next_step();
  }
  // Of two in a step the first is found again as it was, and the larger one is remembered.
  const auto large = random({16, 32}, 5), small = random({16, 32}, 0.1);
  const auto first = fp8_matrix(large, map, Fp8Scales::input, {.straight = true});
  fp8_matrix(small, map, Fp8Scales::input, {.straight = true});
  const auto again = fp8_matrix(large, map, Fp8Scales::input, {.transposed = true, .factor = first.factor});
  EXPECT_TRUE(again.transposed.t().to(at::kFloat).equal(first.straight.to(at::kFloat)));
  EXPECT_EQ(map.largest(Fp8Scales::input).item<float>(), large.abs().max().item<float>());
}

// In value and every gradient, within the rounding of 3 and 2 bits, of the same maths in fp64.
void expect_near(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& narrow,
                 const std::function<Tensors(const Tensors&)>& plain) {
  Tensors mine, theirs;
  for (const auto& input : inputs) {
    mine.push_back(input.detach().clone().requires_grad_());
    theirs.push_back(input.detach().cpu().to(at::kDouble).requires_grad_());
  }
  const auto out = narrow(mine), expected = plain(theirs);
  at::Tensor loss, wanted;
  for (size_t i = 0; i < out.size(); ++i) {
    EXPECT_LT(relative_error(out[i].detach().cpu(), expected[i].detach()), 4e-2) << "output " << i;
    const auto along = at::randn(out[i].sizes());
    const auto part = out[i].to(at::kFloat).mul(along.to(out[i].device())).sum();
    const auto wanted_part = expected[i].mul(along.to(at::kDouble)).sum();
    loss = i == 0 ? part : loss.add(part), wanted = i == 0 ? wanted_part : wanted.add(wanted_part);
  }
  loss.backward();
  wanted.backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(mine[i].grad().defined()) << "gradient " << i;
    EXPECT_LT(relative_error(mine[i].grad().cpu(), theirs[i].grad()), 9e-2) << "gradient " << i;
  }
}

TEST_P(Fp8, each_row_of_each_form_has_its_own_scale) {
  for (const auto& [rows, columns] : kSides) {
    Fp8Scales scales(1, GetParam(), {Fp8Scale::rows});
    const auto sizes = at::randn({rows, 1}).mul(4).exp();  // rows of very different sizes
    const auto values = at::randn({rows, columns}).mul(sizes).to(GetParam(), at::kBFloat16);
    const auto made =
        fp8_matrix(values, Fp8Linear(scales, 0), Fp8Scales::input, {.straight = true, .transposed = true});
    const auto form = [&](const at::Tensor& narrow, const at::Tensor& inverse) {
      return narrow.to(at::kFloat).mul(inverse.unsqueeze(1)).cpu();
    };
    const auto expected = values.cpu().to(at::kFloat);
    const auto straight = form(made.straight, made.inverse);
    for (int64_t i = 0; i < rows; ++i) EXPECT_LT(relative_error(straight[i], expected[i]), 5e-2) << i;
    EXPECT_LT(relative_error(form(made.transposed, made.transposed_inverse).t(), expected), 5e-2);
    EXPECT_FLOAT_EQ(made.straight.to(at::kFloat).abs().amax(1).min().item<float>(), 448);
  }
}

const std::vector<std::pair<bool, bool>> kMapForms{{true, false}, {false, false}, {true, true}, {false, true}};

TEST_P(Fp8, a_norm_and_its_maps_have_the_gradients_of_plain_ones) {
  for (const auto& [in_out, by_rows] : kMapForms) {
    Fp8Scales scales(1, GetParam(), {by_rows ? Fp8Scale::rows : Fp8Scale::delayed});
    const int64_t in = 96, out = 64;
    const std::vector<int64_t> shape{in_out ? in : out, in_out ? out : in};
    expect_near(
        {random({2, 24, in}), random({in}), random({in}), random(shape, 0.1), random({out})},
        [&](const Tensors& t) -> Tensors {
          const auto [hidden, y] =
              norm_linear(t[0], {t[1], t[2], 1e-5}, {{t[3]}, {t[4]}, in_out, Fp8Linear(scales, 0)});
          return {hidden, y};
        },
        [&](const Tensors& t) -> Tensors {
          const auto normal = at::layer_norm(t[0], {in}, t[1], t[2], 1e-5);
          return {t[0].mul(1), normal.matmul(in_out ? t[3] : t[3].t()).add(t[4])};
        });
  }
}

TEST_P(Fp8, maps_of_one_input_have_the_gradients_of_plain_ones) {
  for (const auto& [in_out, by_rows] : kMapForms) {
    Fp8Scales scales(1, GetParam(), {by_rows ? Fp8Scale::rows : Fp8Scale::delayed});
    const int64_t in = 96, out = 64;
    const std::vector<int64_t> shape{in_out ? in : out, in_out ? out : in};
    expect_near(
        {random({2, 24, in}), random(shape, 0.1), random(shape, 0.1), random({out}), random({out})},
        [&](const Tensors& t) -> Tensors {
          return {joined_linears(t[0], {{t[1], t[2]}, {t[3], t[4]}, in_out, Fp8Linear(scales, 0)})};
        },
        [&](const Tensors& t) -> Tensors {
          const auto each = [&](size_t i) { return t[0].matmul(in_out ? t[i] : t[i].t()).add(t[i + 2]); };
          return {at::cat({each(1), each(2)}, -1)};
        });
  }
}

TEST_P(Fp8, residual_maps_have_the_gradients_of_plain_ones) {
  for (const auto& [in_out, by_rows] : kMapForms)
    for (const int kind : {-1, 0, 1, 2}) {
      Fp8Scales scales(1, GetParam(), {by_rows ? Fp8Scale::rows : Fp8Scale::delayed});
      const int64_t in = 96, out = 64;
      const auto activation = static_cast<kernels::Activation>(kind);
      const std::vector<int64_t> shape{in_out ? in : out, in_out ? out : in};
      expect_near(
          {random({2, 24, activation == kernels::Activation::gated_silu ? 2 * in : in}), random(shape, 0.1),
           random({out}), random({2, 24, out})},
          [&](const Tensors& t) -> Tensors {
            const Linears linears{{t[1]}, {t[2]}, in_out, Fp8Linear(scales, 0)};
            if (kind < 0) return {linear_residual(t[0], linears, t[3])};
            return {activated_linear_residual(t[0], activation, linears, t[3])};
          },
          [&](const Tensors& t) -> Tensors {
            const auto x = kind < 0 ? t[0] : kernels::activation_reference(t[0], activation);
            return {x.matmul(in_out ? t[1] : t[1].t()).add(t[2]).add(t[3])};
          });
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Fp8, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::blocks
