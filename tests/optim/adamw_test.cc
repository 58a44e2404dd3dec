#include "hyperion/optim/adamw.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "tests/support/devices.h"

namespace hyperion {
namespace {

using testing::OnDevice;

struct AdamWCase {
  at::Tensor master, first, second, weight, gradient, scale;
};

AdamWCase make_case(int64_t count, at::ScalarType weight_type, at::ScalarType gradient_type, at::Device device) {
  const auto options = at::TensorOptions().device(device).dtype(at::kFloat);
  AdamWCase c;
  c.master = at::randn({count}, options);
  c.first = at::randn({count}, options);
  c.second = at::randn({count}, options).square();
  c.weight = weight_type == at::kFloat ? c.master : c.master.to(weight_type);
  c.gradient = at::randn({count}, options).to(gradient_type);
  c.scale = at::full({}, 0.37, options);
  return c;
}

AdamWCase copy(const AdamWCase& c) {
  AdamWCase other{c.master.clone(), c.first.clone(), c.second.clone(), {}, c.gradient.clone(), c.scale.clone()};
  other.weight = c.weight.is_same(c.master) ? other.master : c.weight.clone();
  return other;
}

class AdamW : public OnDevice {};

TEST_P(AdamW, agrees_with_its_reference_on_odd_sizes_and_types) {
  const std::pair<at::ScalarType, at::ScalarType> types[] = {{at::kFloat, at::kFloat},
                                                             {at::kBFloat16, at::kBFloat16},
                                                             {at::kBFloat16, at::kFloat},
                                                             {at::kHalf, at::kHalf},
                                                             {at::kHalf, at::kFloat}};
  for (const int64_t count : {1, 3, 257, 100'003}) {
    for (const auto& [weight_type, gradient_type] : types) {
      AdamWCase fast = make_case(count, weight_type, gradient_type, GetParam()), plain = copy(fast);
      const optim::AdamWStep step{1e-2f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.3f, 0.2f};
      optim::adamw({fast.master, fast.first, fast.second, fast.weight, fast.gradient}, fast.scale, step);
      optim::adamw_reference({plain.master, plain.first, plain.second, plain.weight, plain.gradient}, plain.scale,
                             step);
      for (const auto& [value, reference] :
           {std::pair(fast.master, plain.master), {fast.first, plain.first}, {fast.second, plain.second}})
        EXPECT_TRUE(at::allclose(value, reference, /*rtol=*/1e-5, /*atol=*/1e-6));
      EXPECT_TRUE(fast.weight.equal(fast.master.to(weight_type))) << "the weight is the rounded master";
    }
  }
}

TEST_P(AdamW, rounds_as_torch_does_for_every_kind_of_number) {
  const auto options = at::TensorOptions().device(GetParam()).dtype(at::kFloat);
  for (const auto& [type, centre] : {std::pair(at::kBFloat16, 1e30), {at::kHalf, 1.0}}) {
    AdamWCase c = make_case(1 << 16, type, at::kFloat, GetParam());
    c.master.mul_(centre).mul_(at::randn({1 << 16}, options).mul_(20).exp_());  // into infinities and denormals
    const optim::AdamWStep still{0.0f, 0.9f, 0.95f, 1e-8f, 0.0f, 1.0f, 1.0f};
    optim::adamw({c.master, c.first, c.second, c.weight, c.gradient}, c.scale, still);
    EXPECT_TRUE(c.weight.equal(c.master.to(type))) << type;
  }
}

TEST_P(AdamW, reads_every_fp16_gradient) {
  const auto device = at::TensorOptions().device(GetParam());
  AdamWCase c = make_case(1 << 16, at::kHalf, at::kHalf, GetParam());
  c.gradient = at::arange(1 << 16, device.dtype(at::kInt)).to(at::kShort).view(at::kHalf);
  c.first.zero_();
  const optim::AdamWStep still{0.0f, 0.0f, 0.95f, 1e-8f, 0.0f, 1.0f, 1.0f};  // the first moment is the gradient
  c.scale.fill_(1);
  optim::adamw({c.master, c.first, c.second, c.weight, c.gradient}, c.scale, still);
  const auto expected = c.gradient.to(at::kFloat);
  EXPECT_TRUE(c.first.eq(expected).logical_or(expected.isnan()).all().item<bool>());
}

INSTANTIATE_TEST_SUITE_P(Devices, AdamW, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
