#include "hyperion/kernels/gemm.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "hyperion/device/tuning_cache.h"
#include "tests/support/devices.h"

namespace hyperion::kernels {
namespace {

TEST(MeasuredGemm, a_measured_product_gives_the_same_and_is_kept) {
  if (device::gpu_count() == 0) GTEST_SKIP() << "it needs a GPU";
  const auto a = at::randn({264, 136}).to(at::kCUDA, at::kBFloat16),
             b = at::randn({136, 72}).to(at::kCUDA, at::kBFloat16);
  const auto plain = gemm({.a = a, .b = b});
  const size_t before = device::tuning_cache().all().size();
  device::set_tuning(true);
  const auto measured = gemm({.a = a, .b = b});
  device::set_tuning(false);
  EXPECT_LT(testing::relative_error(measured.cpu(), plain.cpu()), 1e-2);
  EXPECT_EQ(device::tuning_cache().all().size(), before + 1);
  EXPECT_EQ(device::TuningCache(device::tuning_cache().file()).all().size(), before + 1);
}

class GemmOfParts : public testing::OnDevice {};

// Operands, what is added and the output as parts of wider matrices, which nothing else of may change.
TEST_P(GemmOfParts, gives_what_copies_of_them_give) {
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const int64_t more : {8, 3}) {  // rows that begin where the library likes it, and that do not
      const auto part = [&](int64_t rows, int64_t columns) {
        return at::randn({rows, columns + more}).to(GetParam(), type).narrow(1, 0, columns);
      };
      for (const bool turned : {false, true}) {
        const auto a = turned ? part(40, 24) : part(24, 40), b = part(16, 40), added = part(24, 16);
        const auto wide = at::full({24, 16 + more}, 7.0, a.options());
        gemm_into(wide.narrow(1, 0, 16),
                  {.a = a, .b = b, .transpose_a = turned, .transpose_b = true, .added = added, .scale = 0.3});
        const auto exact = (turned ? a.t() : a).to(at::kDouble).matmul(b.to(at::kDouble).t()).mul(0.3).add(added);
        EXPECT_LT(testing::relative_error(wide.narrow(1, 0, 16).cpu(), exact.cpu()), type == at::kFloat ? 1e-5 : 1e-2);
        EXPECT_TRUE(wide.narrow(1, 16, more).eq(7).all().item<bool>());
      }
    }
}

// With a bias, and as one of a sum: the scale is the product's alone.
TEST_P(GemmOfParts, scales_the_product_and_nothing_else) {
  const auto a = at::randn({24, 40}).to(GetParam()), b = at::randn({40, 16}).to(GetParam()),
             bias = at::randn({16}).to(GetParam());
  const auto product = a.to(at::kDouble).matmul(b.to(at::kDouble)).mul(-1.7);
  const auto with_bias = gemm({.a = a, .b = b, .bias = bias, .scale = -1.7});
  EXPECT_LT(testing::relative_error(with_bias.cpu(), product.add(bias).cpu()), 1e-5);
  const auto sum = at::full({24, 16}, 7.0, a.options());
  gemm_add(sum, {.a = a, .b = b, .scale = -1.7}, /*first=*/false);
  EXPECT_LT(testing::relative_error(sum.cpu(), product.add(7).cpu()), 1e-5);
  gemm_add(sum, {.a = a, .b = b, .scale = -1.7}, /*first=*/true);
  EXPECT_LT(testing::relative_error(sum.cpu(), product.cpu()), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Devices, GemmOfParts, ::testing::ValuesIn(testing::devices()), testing::device_name);

// A way that cuts a long sum into parts must not round them on the way.
TEST(MeasuredGemm, a_long_sum_is_rounded_once) {
  if (device::gpu_count() == 0) GTEST_SKIP() << "it needs a GPU";
  const std::array<int64_t, 3> shapes[] = {{96, 768, 50257}, {768, 2304, 8192}, {40, 24, 30000}};
  for (const auto& [rows, columns, k] : shapes) {
    const auto a = at::randn({k, rows}).to(at::kCUDA, at::kBFloat16), b = at::randn({k, columns}).to(a.options());
    const auto exact = a.to(at::kDouble).t().matmul(b.to(at::kDouble));
    for (const bool measured : {false, true}) {
      device::set_tuning(measured);
      const auto out = gemm({.a = a, .b = b, .transpose_a = true});
      device::set_tuning(false);
      const auto beyond = out.to(at::kDouble).sub(exact).abs().sub(exact.abs().mul(1.0 / 255)).max().item<double>();
      EXPECT_LT(beyond, 1e-4 * std::sqrt(static_cast<double>(k)))
          << rows << " x " << columns << " x " << k << " measured " << measured;
    }
  }
}

}  // namespace
}  // namespace hyperion::kernels
