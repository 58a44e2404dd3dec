#include "hyperion/kernels/gelu.h"

#include <ATen/ops/linspace.h>
#include <ATen/ops/randn.h>

#include "tests/support/devices.h"

namespace hyperion {
namespace {

using testing::OnDevice;

class Gelu : public OnDevice {};

TEST_P(Gelu, agrees_with_its_reference_in_value_and_gradient) {
  const auto options = at::TensorOptions().device(GetParam());
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t count : {1, 7, 8193, 20'011}) {
      const auto spread = at::randn({count, 3}, options).mul(4).to(type);
      const auto upstream = at::randn({count, 3}, options).to(type);
      std::vector<at::Tensor> fast, plain;
      for (auto* results : {&fast, &plain}) {
        const auto wide = results == &fast ? type : at::kDouble;
        auto x = spread.to(wide, false, true).requires_grad_();
        const auto y = results == &fast ? kernels::gelu(x) : kernels::gelu_reference(x);
        y.backward(upstream.to(wide));
        *results = {y.detach().to(at::kDouble), x.grad().to(at::kDouble)};
      }
      const double tolerance = type == at::kFloat ? 3e-6 : 1e-2;
      for (size_t i = 0; i < fast.size(); ++i)
        EXPECT_TRUE(at::allclose(fast[i], plain[i], tolerance, tolerance))
            << i << " of " << count << " in " << at::toString(type) << ", off by "
            << fast[i].sub(plain[i]).abs().max().item<double>();
    }
  }
}

TEST_P(Gelu, holds_its_limits_far_out) {
  const auto x = at::linspace(-1e4, 1e4, 4001, at::TensorOptions().device(GetParam()));
  EXPECT_TRUE(at::allclose(kernels::gelu(x), kernels::gelu_reference(x), 1e-6, 1e-6));
}

TEST_P(Gelu, by_erf_agrees_with_its_reference_in_value_and_gradient) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto spread = at::linspace(-9, 9, 4001, at::TensorOptions().device(GetParam())).to(type);
    std::vector<at::Tensor> fast, plain;
    for (auto* results : {&fast, &plain}) {
      auto x = spread.to(results == &fast ? type : at::kDouble, false, true).requires_grad_();
      const auto y = results == &fast ? kernels::gelu_erf(x) : kernels::gelu_erf_reference(x);
      y.sum().backward();
      *results = {y.detach().to(at::kDouble), x.grad().to(at::kDouble)};
    }
    const double tolerance = type == at::kFloat ? 1e-6 : 1e-2;
    for (size_t i = 0; i < fast.size(); ++i) EXPECT_TRUE(at::allclose(fast[i], plain[i], tolerance, tolerance)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Gelu, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
