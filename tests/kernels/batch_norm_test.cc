#include "hyperion/kernels/batch_norm.h"

#include <ATen/ops/batch_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "tests/support/devices.h"

namespace hyperion::kernels {
namespace {

class BatchNorm : public testing::OnDevice {};

// Against the same in fp64: value, running statistics and every gradient.
TEST_P(BatchNorm, with_residual_and_activation_agrees_with_fp64) {
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& shape : std::vector<std::array<int64_t, 4>>{{4, 8, 2, 3},
                                                                 {3, 16, 5, 7},
                                                                 {4, 72, 9, 3},
                                                                 {5, 64, 16, 16},
                                                                 {2, 520, 4, 4},
                                                                 {3, 5, 6, 6},
                                                                 {7, 64, 57, 41}})
      for (const bool relu : {false, true})
        for (const bool joined : {false, true}) {
          SCOPED_TRACE(::testing::Message()
                       << c10::toString(type) << " " << shape[1] << (relu ? " relu" : "") << (joined ? " joined" : ""));
          const int64_t channels = shape[1];
          const auto last = at::MemoryFormat::ChannelsLast;
          // Far from zero: the variance must not drown.
          const auto x = at::randn(shape).mul(2).add(7).to(type), r = at::randn(shape).to(type);
          const auto w = at::rand({channels}).add(0.5), b = at::randn({channels});
          auto leaf = [&](const at::Tensor& t, at::ScalarType as, bool here) {
            auto moved = here ? t.to(GetParam(), as) : t.to(as);
            if (moved.dim() == 4) moved = moved.contiguous(last);
            return moved.detach().requires_grad_();
          };
          const auto mean = at::zeros({channels}), var = at::ones({channels});
          const auto x1 = leaf(x, type, true), r1 = leaf(r, type, true), w1 = leaf(w, at::kFloat, true),
                     b1 = leaf(b, at::kFloat, true);
          const auto mean1 = mean.clone().to(GetParam()), var1 = var.clone().to(GetParam());
          const auto batches = at::zeros({}, at::TensorOptions(GetParam()).dtype(at::kLong));
          const auto y1 =
              batch_norm_training(x1, {w1, b1, mean1, var1, 0.1, 1e-5, batches}, joined ? r1 : at::Tensor(), relu);
          EXPECT_EQ(batches.item<int64_t>(), 1);
          const auto x2 = leaf(x, at::kDouble, false), r2 = leaf(r, at::kDouble, false),
                     w2 = leaf(w, at::kDouble, false), b2 = leaf(b, at::kDouble, false);
          const auto mean2 = mean.to(at::kDouble), var2 = var.to(at::kDouble);
          auto y2 = at::batch_norm(x2, w2, b2, mean2, var2, true, 0.1, 1e-5, false);
          if (joined) y2 = y2.add(r2);
          // Nothing rests on a number that rounding may take across zero.
          const auto along = at::randn(shape).mul(y2.detach().abs().gt(0.05));
          if (relu) y2 = y2.relu();
          const double bound = type == at::kFloat ? 1e-5 : type == at::kHalf ? 4e-3 : 2e-2;
          EXPECT_LT(testing::relative_error(y1.detach().cpu(), y2.detach()), bound);
          EXPECT_LT(testing::relative_error(mean1.cpu(), mean2), 1e-5);
          EXPECT_LT(testing::relative_error(var1.cpu(), var2), 1e-4);
          y1.to(at::kFloat).mul(along.to(GetParam())).sum().backward();
          y2.mul(along).sum().backward();
          EXPECT_LT(testing::relative_error(x1.grad().cpu(), x2.grad()), 8 * bound);
          EXPECT_LT(testing::relative_error(w1.grad().cpu(), w2.grad()), 4 * bound);
          EXPECT_LT(testing::relative_error(b1.grad().cpu(), b2.grad()), 4 * bound);
          if (joined) {
            EXPECT_LT(testing::relative_error(r1.grad().cpu(), r2.grad()), 4 * bound);
          }
        }
}

TEST_P(BatchNorm, adds_the_gradients_of_two_ways) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const bool first : {true, false})
      for (const bool second : {true, false}) {
        if (!first && !second) continue;
        const auto values = at::randn({5, 64, 9, 7}).to(type), added = at::randn({5, 64, 9, 7}).to(type);
        const auto along = at::randn({5, 64, 9, 7}), across = at::randn({5, 64, 9, 7});
        const auto run = [&](at::Device device, bool two_ways) {
          const auto last = [&](const at::Tensor& t) {
            return t.to(device).contiguous(at::MemoryFormat::ChannelsLast).detach().requires_grad_();
          };
          const auto wide = at::TensorOptions(device).dtype(at::kFloat);
          const auto x = last(values), r = last(added);
          const auto w = at::ones({64}, wide).requires_grad_(), b = at::zeros({64}, wide).requires_grad_();
          const BatchNormState state{w, b, at::zeros({64}, wide), at::ones({64}, wide), 0.1, 1e-5};
          const auto y = batch_norm_training(x, state, r, true), z = two_ways ? second_way(y) : y;
          EXPECT_TRUE(z.equal(y));
          auto sum = at::zeros({}, wide);
          if (first) sum = sum.add(y.to(at::kFloat).mul(along.to(device)).sum());
          if (second) sum = sum.add(z.to(at::kFloat).mul(across.to(device)).sum());
          sum.backward();
          return std::vector<at::Tensor>{x.grad(), r.grad(), w.grad(), b.grad()};
        };
        const auto one = run(GetParam(), false), two = run(GetParam(), true);
        for (size_t i = 0; i < one.size(); ++i)
          EXPECT_LT(testing::relative_error(two[i], one[i]), type == at::kFloat ? 1e-5 : 1e-2) << i << first << second;
      }
}

INSTANTIATE_TEST_SUITE_P(Devices, BatchNorm, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::kernels
