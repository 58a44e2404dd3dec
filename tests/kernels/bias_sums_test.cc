#include "hyperion/kernels/bias_sums.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace hyperion::kernels {
namespace {

TEST(BiasSums, are_wanted_of_the_same_memory_only) {
  const auto output = at::ones({3, 4}), other = at::ones({3, 4});
  request_bias_sums(output);
  EXPECT_TRUE(bias_sums_requested(output));
  EXPECT_TRUE(bias_sums_requested(output.view({12})));
  EXPECT_FALSE(bias_sums_requested(other));
  EXPECT_FALSE(bias_sums_requested(output.narrow(0, 0, 2)));
  EXPECT_FALSE(bias_sums_requested(output.narrow(0, 1, 2)));
}

TEST(BiasSums, are_taken_once) {
  const auto gradient = at::ones({3, 4}), sums = at::ones({4});
  leave_bias_sums(gradient, sums);
  EXPECT_FALSE(take_bias_sums(at::ones({3, 4})).defined());
  EXPECT_TRUE(take_bias_sums(gradient.view({1, 3, 4})).is_same(sums));
  EXPECT_FALSE(take_bias_sums(gradient).defined());
}

TEST(BiasSums, are_void_once_the_gradient_has_changed) {
  auto gradient = at::ones({3, 4});
  leave_bias_sums(gradient, at::ones({4}));
  gradient.add_(1);
  EXPECT_FALSE(take_bias_sums(gradient).defined());
}

TEST(BiasSums, keep_no_gradient_alive) {
  auto gradient = at::ones({3, 4});
  const auto* where = gradient.const_data_ptr();
  leave_bias_sums(gradient, at::ones({4}));
  EXPECT_EQ(gradient.storage().use_count(), 1);
  gradient = at::Tensor();
  // Other memory, even at the same place, is another gradient.
  const auto next = at::ones({3, 4});
  if (next.const_data_ptr() == where) {
    EXPECT_FALSE(take_bias_sums(next).defined());
  }
}

}  // namespace
}  // namespace hyperion::kernels
