#include "hyperion/kernels/cross_entropy.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "tests/support/devices.h"

namespace hyperion {
namespace {

using testing::OnDevice;
using testing::relative_error;

class CrossEntropy : public OnDevice {};

struct Result {
  at::Tensor loss, gradient;
};

Result of(at::Tensor (*loss)(const at::Tensor&, const at::Tensor&), const at::Tensor& logits,
          const at::Tensor& targets) {
  auto leaf = logits.detach().clone().requires_grad_();
  const auto value = loss(leaf, targets);
  value.mul(3).backward();
  return {value.detach(), leaf.grad().to(at::kFloat)};
}

TEST_P(CrossEntropy, agrees_with_its_reference_in_value_and_gradient) {
  const auto options = at::TensorOptions().device(GetParam());
  for (const auto& [rows, classes] :
       {std::pair(1, 1), {1, 2}, {37, 5}, {129, 1000}, {65, 1013}, {3, 50'257}, {700, 50'000}}) {
    for (const auto type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto logits = at::randn({rows, classes}, options).mul(4).to(type);
      auto targets = at::randint(classes, {rows}, options.dtype(at::kLong));
      if (rows > 2) targets.narrow(0, 1, 1).fill_(-100);
      const auto fast = of(kernels::cross_entropy, logits, targets);
      const auto plain = of(kernels::cross_entropy_reference, logits, targets);
      EXPECT_EQ(fast.loss.scalar_type(), at::kFloat);
      EXPECT_NEAR(fast.loss.item<double>(), plain.loss.item<double>(), 1e-5 * (1 + plain.loss.item<double>()))
          << rows << " x " << classes;
      // A gradient is the difference of two numbers up to 3 / rows, and only so exact, however small it comes out.
      const double bound = type == at::kFloat ? 2e-5 : 1e-2, scale = 3 / std::sqrt(static_cast<double>(rows));
      EXPECT_LT(fast.gradient.sub(plain.gradient).norm().item<double>(), bound * scale) << rows << " x " << classes;
    }
  }
}

TEST_P(CrossEntropy, of_a_part_of_a_larger_tensor) {
  const auto options = at::TensorOptions().device(GetParam());
  const auto whole = at::randn({9, 1003}, options).to(at::kBFloat16);
  const auto targets = at::randint(1003, {8}, options.dtype(at::kLong));
  const auto part = whole.view({-1}).narrow(0, 3, 8 * 1003).view({8, 1003});  // starts at no whole vector
  EXPECT_NEAR(kernels::cross_entropy(part, targets).item<double>(),
              kernels::cross_entropy_reference(part, targets).item<double>(), 1e-4);
}

TEST_P(CrossEntropy, of_nothing_counted_is_zero) {
  const auto options = at::TensorOptions().device(GetParam());
  const auto result =
      of(kernels::cross_entropy, at::randn({5, 11}, options), at::full({5}, -100, options.dtype(at::kLong)));
  EXPECT_EQ(result.loss.item<float>(), 0);
  EXPECT_EQ(result.gradient.abs().sum().item<float>(), 0);
}

TEST_P(CrossEntropy, of_parts_of_classes_is_the_mean_by_those_parts) {
  const auto options = at::TensorOptions().device(GetParam());
  const auto logits = at::randn({7, 5}, options);
  const auto first = at::randint(3, {7}, options.dtype(at::kLong)),
             second = at::randint(3, {7}, options.dtype(at::kLong));
  auto parts = at::zeros({7, 3}, options);  // the model may know more classes than the data has
  for (int64_t row = 0; row < 7; ++row) {
    parts[row][first[row].item<int64_t>()] += 0.7;
    parts[row][second[row].item<int64_t>()] += 0.3;
  }
  const double expected = 0.7 * kernels::cross_entropy(logits, first).item<double>() +
                          0.3 * kernels::cross_entropy(logits, second).item<double>();
  EXPECT_NEAR(kernels::cross_entropy(logits, parts).item<double>(), expected, 1e-5);
}

TEST_P(CrossEntropy, large_logits_stay_finite) {
  const auto options = at::TensorOptions().device(GetParam());
  const auto logits = at::randn({5, 11}, options).mul(3e4), targets = at::randint(11, {5}, options.dtype(at::kLong));
  const auto result = of(kernels::cross_entropy, logits, targets);
  EXPECT_TRUE(result.gradient.isfinite().all().item<bool>());
  EXPECT_LT(relative_error(result.loss, of(kernels::cross_entropy_reference, logits, targets).loss), 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropy, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
