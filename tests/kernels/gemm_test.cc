#include "hyperion/kernels/gemm.h"

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
