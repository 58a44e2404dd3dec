#include "hyperion/kernels/dropout.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include "tests/kernels/support_devices.h"

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
      const bool dropped = base::unit_float(base::random_bits(kKey, i, 7, 2)) < 0.3f;
      EXPECT_FLOAT_EQ(y[i].item<float>(), dropped ? 0.0f : in[i].item<float>() * static_cast<float>(1 / 0.7));
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

INSTANTIATE_TEST_SUITE_P(Devices, Dropout, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
