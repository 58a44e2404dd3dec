#include "hyperion/kernels/norm.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>

#include "tests/support/devices.h"

namespace hyperion {
namespace {

using testing::OnDevice;
using testing::relative_error;

class RmsNorm : public OnDevice {};

struct NormResult {
  at::Tensor value, of_input, of_weight;
};

NormResult norm_of(at::Tensor (*norm)(const at::Tensor&, const kernels::NormWeights&), const at::Tensor& input,
                   const at::Tensor& weight, const at::Tensor& upstream, bool frozen) {
  auto x = input.detach().clone().requires_grad_();
  auto w = weight.detach().clone().set_requires_grad(!frozen);
  const auto y = norm(x, {w, {}, 1e-6});
  y.backward(upstream);
  return {y.detach(), x.grad(), frozen ? at::Tensor() : w.grad()};
}

TEST_P(RmsNorm, agrees_with_its_reference_in_value_and_gradients) {
  const auto options = at::TensorOptions().device(GetParam());
  for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const auto& shape : {std::vector<int64_t>{1, 1}, {3, 5, 36}, {2, 7, 129}}) {
      const auto input = at::randn(shape, options).mul(2).to(type), upstream = at::randn(shape, options).to(type);
      const auto weight = at::randn({shape.back()}, options).to(type);
      const double limit = type == at::kFloat ? 1e-5 : 2e-2;
      for (const bool frozen : {false, true}) {
        const auto fast = norm_of(kernels::norm, input, weight, upstream, frozen);
        const auto plain = norm_of(kernels::norm_reference, input, weight, upstream, frozen);
        // A GPU's kernel rounds once, the reference before the weight too.
        EXPECT_LE(relative_error(fast.value, plain.value), GetParam().is_cuda() ? limit : 0);
        EXPECT_EQ(fast.of_input.scalar_type(), type);
        if (shape.back() > 1) {
          EXPECT_LT(relative_error(fast.of_input, plain.of_input), limit) << shape;
        }
        if (!frozen) {
          EXPECT_LT(relative_error(fast.of_weight, plain.of_weight), limit) << shape;
        }
      }
    }
}

TEST_P(RmsNorm, goes_into_a_part_of_wider_rows) {
  for (const int64_t width : {8, 13, 768, 5000})
    for (const auto type : {at::kFloat, at::kBFloat16}) {
      const auto input = at::randn({3, 2, width}).to(GetParam(), type),
                 weight = at::randn({width}).to(GetParam(), type);
      const auto wide = at::full({6, width + 16}, 7.0, input.options());
      const auto found = kernels::normalize_into(wide.narrow(1, 0, width), input, {weight, {}, 1e-5});
      const auto expected = kernels::normalize(input, {weight, {}, 1e-5});
      EXPECT_TRUE(wide.narrow(1, 0, width).equal(expected.output.view({6, width}))) << width;
      EXPECT_TRUE(found.statistics.inverse.equal(expected.statistics.inverse)) << width;
      EXPECT_TRUE(wide.narrow(1, width, 16).eq(7).all().item<bool>()) << width;
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, RmsNorm, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
