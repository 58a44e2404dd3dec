#include "hyperion/kernels/attention.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>

#include "tests/kernels/support_devices.h"

namespace hyperion {
namespace {

using testing::OnDevice;
using testing::relative_error;

class Attention : public OnDevice {
 protected:
  at::Tensor random(at::IntArrayRef shape, at::ScalarType type) {
    return at::randn(shape, at::TensorOptions().device(GetParam())).to(type).requires_grad_();
  }
};

TEST_P(Attention, agrees_with_its_reference_in_value_and_gradient) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t length : {1, 7, 64, 129}) {
      const auto q = random({2, 3, length, 32}, type), k = random({2, 3, length, 32}, type),
                 v = random({2, 3, length, 32}, type);
      const auto weight = at::randn({2, 3, length, 32}, at::TensorOptions().device(GetParam())).to(type);
      std::vector<at::Tensor> fast, plain;
      for (auto* results : {&fast, &plain}) {
        for (const auto& t : {q, k, v}) t.mutable_grad().reset();
        const auto out =
            results == &fast ? kernels::causal_attention(q, k, v) : kernels::causal_attention_reference(q, k, v);
        out.backward(weight);
        *results = {out.detach(), q.grad().clone(), k.grad().clone(), v.grad().clone()};
      }
      const double tolerance = type == at::kFloat ? 2e-5 : 2e-2;
      for (size_t i = 0; i < fast.size(); ++i) {
        // With one key there is nothing to choose, and the gradients of queries and keys are zero but for rounding.
        if (length == 1 && (i == 1 || i == 2)) continue;
        EXPECT_LT(relative_error(fast[i], plain[i]), tolerance) << i << " at length " << length;
      }
    }
  }
}

TEST_P(Attention, of_few_queries_over_many_keys_is_the_end_of_the_whole) {
  const auto q = random({2, 3, 21, 16}, at::kFloat), k = random({2, 3, 21, 16}, at::kFloat),
             v = random({2, 3, 21, 16}, at::kFloat);
  const auto whole = kernels::causal_attention_reference(q, k, v);
  for (const int64_t last : {1, 4, 20}) {
    const auto end = whole.narrow(2, 21 - last, last), part = q.narrow(2, 21 - last, last);
    EXPECT_LT(relative_error(kernels::causal_attention(part, k, v), end), 2e-5);
    EXPECT_LT(relative_error(kernels::causal_attention_reference(part, k, v), end), 2e-5);
  }
}

TEST_P(Attention, that_sees_all_agrees_with_its_reference_under_masks) {
  const auto options = at::TensorOptions().device(GetParam());
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const auto q = random({2, 4, 17, 16}, type), k = random({2, 2, 21, 16}, type), v = random({2, 2, 21, 16}, type);
    auto mask = at::ones({2, 21}, options.dtype(at::kBool));
    mask.narrow(1, 3, 5).fill_(false);
    for (const auto& each : {at::Tensor(), mask}) {
      std::vector<at::Tensor> fast, plain;
      for (auto* results : {&fast, &plain}) {
        for (const auto& t : {q, k, v}) t.mutable_grad().reset();
        const auto out =
            results == &fast ? kernels::attention(q, k, v, each) : kernels::attention_reference(q, k, v, each);
        out.backward(at::ones_like(out));
        *results = {out.detach(), q.grad().clone(), k.grad().clone(), v.grad().clone()};
      }
      for (size_t i = 0; i < fast.size(); ++i)
        EXPECT_LT(relative_error(fast[i], plain[i]), type == at::kFloat ? 2e-5 : 2e-2) << i;
    }
    const auto first = kernels::attention(q, k, v).narrow(2, 0, 1), last = kernels::attention(q.flip(2), k, v);
    EXPECT_LT(relative_error(first, last.narrow(2, 16, 1)), type == at::kFloat ? 2e-5 : 2e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Attention, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
