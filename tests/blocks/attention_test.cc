#include "hyperion/blocks/attention.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>

#include "tests/blocks/support_attention.h"
#include "tests/support/devices.h"

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
            results == &fast ? blocks::causal_attention(q, k, v) : blocks::causal_attention_reference(q, k, v);
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
  const auto whole = blocks::causal_attention_reference(q, k, v);
  for (const int64_t last : {1, 4, 20}) {
    const auto end = whole.narrow(2, 21 - last, last), part = q.narrow(2, 21 - last, last);
    EXPECT_LT(relative_error(blocks::causal_attention(part, k, v), end), 2e-5);
    EXPECT_LT(relative_error(blocks::causal_attention_reference(part, k, v), end), 2e-5);
  }
}

using testing::plain_attention;

// A mask that says of each query and key what the window says.
at::Tensor band(int64_t batch, int64_t queries, int64_t keys, int64_t window, at::Device device) {
  const auto ones = at::ones({queries, keys}, at::TensorOptions().dtype(at::kBool).device(device));
  return ones.triu(keys - queries - window + 1).expand({batch, queries, keys});
}

TEST_P(Attention, through_a_window_is_that_under_the_windows_mask_in_value_and_gradient) {
  for (const int64_t queries : {1, 5, 23})
    for (const int64_t window : {1, 4, 22, 23, 40})
      for (const bool masked : {false, true}) {
        SCOPED_TRACE(::testing::Message() << queries << " queries, window " << window << ", masked " << masked);
        const auto q = random({2, 4, queries, 16}, at::kFloat), k = random({2, 2, 23, 16}, at::kFloat),
                   v = random({2, 2, 23, 16}, at::kFloat);
        const auto visible = band(2, queries, 23, window, GetParam());
        auto padding = at::ones({2, 23}, visible.options());
        padding[1].narrow(0, 0, 20).fill_(false);
        const auto both = masked ? visible.logical_and(padding.unsqueeze(1)) : visible;
        const auto given = masked ? padding : at::Tensor();
        const auto along = at::randn({2, 4, queries, 16}).to(GetParam());
        std::vector<std::vector<at::Tensor>> results;
        for (const int way : {0, 1, 2}) {
          for (const auto& t : {q, k, v}) t.mutable_grad().reset();
          const auto out = way == 0   ? plain_attention(q, k, v, both.tril(23 - queries))
                           : way == 1 ? blocks::causal_attention_reference(q, k, v, {.keys = given, .window = window})
                                      : blocks::causal_attention(q, k, v, {.keys = given, .window = window});
          out.backward(along);
          results.push_back({out.detach(), q.grad().clone(), k.grad().clone(), v.grad().clone()});
        }
        for (size_t i = 0; i < 4; ++i) {
          if (results[0][i].norm().item<double>() < 1e-5) continue;
          EXPECT_LT(relative_error(results[1][i], results[0][i]), 2e-5) << i;
          EXPECT_LT(relative_error(results[2][i], results[0][i]), 2e-5) << i;
        }
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
            results == &fast ? blocks::attention(q, k, v, {each}) : blocks::attention_reference(q, k, v, {each});
        out.backward(at::ones_like(out));
        *results = {out.detach(), q.grad().clone(), k.grad().clone(), v.grad().clone()};
      }
      for (size_t i = 0; i < fast.size(); ++i)
        EXPECT_LT(relative_error(fast[i], plain[i]), type == at::kFloat ? 2e-5 : 2e-2) << i;
    }
    const auto first = blocks::attention(q, k, v).narrow(2, 0, 1), last = blocks::attention(q.flip(2), k, v);
    EXPECT_LT(relative_error(first, last.narrow(2, 16, 1)), type == at::kFloat ? 2e-5 : 2e-2);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Attention, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion
