#include "hyperion/kernels/dropout.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/randn_like.h>
#include <torch/csrc/autograd/autograd.h>

#include <array>

#include "hyperion/base/format.h"
#include "hyperion/device/graph.h"
#include "tests/support/devices.h"

namespace hyperion {
namespace {

using kernels::dropout;
using testing::OnDevice;

constexpr base::StreamKey kKey{17, 42};

class Dropout : public OnDevice {
 protected:
  at::TensorOptions options(at::ScalarType type = at::kFloat) {
    return at::TensorOptions().device(GetParam()).dtype(type);
  }
};

TEST_P(Dropout, keeps_the_elements_its_random_numbers_say) {
  for (const int64_t count : {1, 5, 4099}) {
    const auto x = at::randn({count}, options());
    const auto y = dropout(x, 0.3, {kKey, 7, 2}).to(at::kCPU), in = x.to(at::kCPU);
    for (int64_t i = 0; i < count; ++i) {
      const auto words = base::philox<7>(kKey, i / 8, 7, 2);
      const uint32_t bits = words.word[i % 8 / 2] >> (i % 2 == 0 ? 0 : 16) & 0xffff, below = 19661;  // 0.3 of 65536
      EXPECT_FLOAT_EQ(y[i].item<float>(), bits < below ? 0.0f : in[i].item<float>() * 65536 / (65536 - 19661));
    }
  }
}

TEST_P(Dropout, gives_the_same_mask_in_backward) {
  auto x = at::randn({37, 129}, options()).requires_grad_();
  const auto y = dropout(x, 0.5, {kKey, 1, 0});
  y.backward(at::ones({37, 129}, options()));
  EXPECT_TRUE(x.grad().ne(0).equal(y.detach().ne(0)));
  EXPECT_TRUE(x.grad().eq(0).logical_or(x.grad().eq(2)).all().item<bool>());
}

TEST_P(Dropout, differs_by_step_micro_batch_and_stream_and_takes_bf16) {
  const auto x = at::ones({4096}, options(at::kBFloat16));
  const auto y = dropout(x, 0.25, {kKey, 1, 0});
  EXPECT_EQ(y.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(y.equal(dropout(x, 0.25, {kKey, 1, 0})));
  EXPECT_FALSE(y.equal(dropout(x, 0.25, {kKey, 2, 0})));
  EXPECT_FALSE(y.equal(dropout(x, 0.25, {kKey, 1, 1})));
  EXPECT_FALSE(y.equal(dropout(x, 0.25, {{17, 43}, 1, 0})));
  EXPECT_NEAR(y.to(at::kFloat).mean().item<double>(), 1.0, 0.05);
}

TEST_P(Dropout, with_bias_and_residual_is_the_plain_operations_in_one_pass) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& [rows, width] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {3, 5}, {7, 64}, {33, 4104}})
      for (const bool with_bias : {false, true}) {
        SCOPED_TRACE(base::format("{} {}x{} {}", c10::toString(type), rows, width, with_bias));
        const auto make = [&](at::IntArrayRef shape) { return at::randn(shape, options(type)).requires_grad_(); };
        const auto input = make({rows, width}), residual = make({rows, width}), above = make({rows, width}).detach(),
                   bias = with_bias ? make({width}) : at::Tensor();
        const auto run = [&](auto operation, at::ScalarType as) {
          const auto leaf = [&](const at::Tensor& t) {
            return t.defined() ? t.detach().to(as).requires_grad_() : at::Tensor();
          };
          const auto x = leaf(input), b = leaf(bias), r = leaf(residual);
          const auto out = operation(x, b, r, 0.3, kernels::RandomPlace{kKey, 3, 1});
          out.backward(above.to(as));
          return std::vector{out.detach(), x.grad(), b.defined() ? b.grad() : x.grad(), r.grad()};
        };
        const auto fast = run(kernels::bias_dropout_residual, type);
        const auto plain = run(kernels::bias_dropout_residual_reference, at::kFloat);
        const double tolerance = type == at::kFloat ? 1e-6 : type == at::kBFloat16 ? 1e-2 : 2e-3;
        for (size_t i = 0; i < fast.size(); ++i) {
          EXPECT_EQ(fast[i].scalar_type(), type);
          EXPECT_LT(testing::relative_error(fast[i], plain[i]), tolerance) << i;
        }
        EXPECT_TRUE(fast[1].eq(0).equal(plain[1].eq(0)));
      }
}

// Columns, positions or heads of a tensor, from one place or two of each row on, of sizes that eight elements, and 16
// bytes, divide or do not.
TEST_P(Dropout, of_a_shard_is_the_shard_of_the_whole) {
  struct Cut {
    int64_t outer, whole, inner, begin, count, second = -1;
  };
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const Cut& cut :
         {Cut{7, 96, 1, 32, 32}, Cut{5, 60, 1, 20, 20}, Cut{3, 11, 13, 4, 5}, Cut{4, 12, 64, 3, 3}, Cut{2, 6, 35, 0, 2},
          Cut{9, 129, 1, 128, 1}, Cut{1, 8, 5, 2, 6}, Cut{3, 8, 16, 2, 2, 4}, Cut{2, 12, 5, 0, 3, 9}}) {
      const int64_t outer = cut.outer, whole = cut.whole, inner = cut.inner, begin = cut.begin, count = cut.count,
                    second = cut.second;
      SCOPED_TRACE(base::format("{} {}x{}x{} {}+{}", c10::toString(type), outer, whole, inner, begin, count));
      const kernels::ElementMap elements{count * inner, whole * inner, begin * inner, second < 0 ? -1 : second * inner};
      const auto shard = [&](const at::Tensor& t) {
        const auto rows = t.view({outer, whole, inner});
        auto own = rows.narrow(1, begin, count);
        if (second >= 0) own = at::cat({own, rows.narrow(1, second, count)}, 1);
        return own.contiguous().view({outer, -1});
      };
      const auto x = at::randn({outer, whole * inner}, options(type)), above = at::randn_like(x),
                 residual = at::randn_like(x);
      const auto run = [&](const at::Tensor& in, const at::Tensor& to, const at::Tensor& more,
                           const kernels::ElementMap& map) {
        const auto leaf = in.detach().clone().requires_grad_();
        const auto out = dropout(leaf, 0.4, {kKey, 5, 3, map});
        out.backward(to);
        const auto bias = at::ones({in.size(1)}, options(type));
        return std::vector{out.detach(), leaf.grad(),
                           kernels::bias_dropout_residual(in, bias, more, 0.4, {kKey, 5, 3, map})};
      };
      const auto all = run(x, above, residual, {}), part = run(shard(x), shard(above), shard(residual), elements);
      for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(shard(all[i]).equal(part[i])) << i;
    }
}

// Of samples some tokens, in one run or in two, and of these some columns: what tp and cp together leave a process.
TEST_P(Dropout, of_some_columns_of_some_rows_is_that_of_the_whole) {
  constexpr int64_t kSamples = 3, kTokens = 12;
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t width : {48, 6})
      for (const auto& runs : {std::array<int64_t, 3>{3, 3, 6}, {4, 8, -1}, {1, 0, 11}})
        for (const int64_t column : {int64_t{0}, width / 3}) {
          const int64_t columns = width / 3, run = runs[0], first = runs[1], second = runs[2];
          const kernels::ElementMap part{run, kTokens, first, second, columns, width, column};
          const auto shard = [&](const at::Tensor& t) {
            auto rows = t.narrow(1, first, run);
            if (second >= 0) rows = at::cat({rows, t.narrow(1, second, run)}, 1);
            return rows.narrow(2, column, columns).contiguous();
          };
          const auto x = at::randn({kSamples, kTokens, width}, options(type));
          const auto dropped = [&](const at::Tensor& in, const kernels::ElementMap& map) {
            const auto leaf = in.detach().clone().requires_grad_();
            const auto out = dropout(leaf, 0.4, {kKey, 5, 3, map});
            out.backward(at::ones(out.sizes(), out.options()));
            return std::pair{out.detach(), leaf.grad()};
          };
          const auto [all, gradient] = dropped(x, {});
          const auto [own, of_own] = dropped(shard(x), part);
          EXPECT_TRUE(shard(all).equal(own)) << width << " " << run << " " << column;
          EXPECT_TRUE(shard(gradient).equal(of_own)) << width << " " << run << " " << column;
        }
}

TEST_P(Dropout, recorded_once_it_drops_by_the_step_of_each_replay) {
  if (!GetParam().is_cuda()) GTEST_SKIP() << "graphs are a GPU's";
  const auto x = at::randn({33, 129}, options()), residual = at::randn({33, 129}, options());
  const auto leaf = x.detach().clone().requires_grad_();
  const auto set = [&](uint32_t step) {
    kernels::SmallWrites writes;
    kernels::set_recorded_step(GetParam(), step, writes);
    writes.queue();
  };
  set(1);
  device::Graph graph;
  at::Tensor y, z, gradient;
  graph.record([&] {
    y = dropout(x, 0.5, {kKey, 1, 4});
    z = kernels::bias_dropout_residual(x, {}, residual, 0.5, {kKey, 1, 4});
    const auto out = dropout(leaf, 0.5, {kKey, 1, 4});
    gradient = torch::autograd::grad({out}, {leaf}, {x})[0];
  });
  for (const uint32_t step : {1u, 2u, 77u}) {
    set(step);
    graph.replay();
    const auto expected = dropout(x, 0.5, {kKey, step, 4});
    EXPECT_TRUE(y.equal(expected)) << step;
    EXPECT_TRUE(gradient.equal(expected)) << step;
    EXPECT_TRUE(z.equal(kernels::bias_dropout_residual(x, {}, residual, 0.5, {kKey, step, 4}))) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Dropout, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
