#include "hyperion/kernels/bias_sums.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace hyperion::kernels {
namespace {

TEST(BiasSums, are_wanted_of_the_same_memory_only) {
  const auto output = at::ones({3, 4}), other = at::ones({3, 4});
  want_sums(output);
  EXPECT_TRUE(sums_wanted(output));
  EXPECT_TRUE(sums_wanted(output.view({12})));
  EXPECT_FALSE(sums_wanted(other));
  EXPECT_FALSE(sums_wanted(output.narrow(0, 0, 2)));
  EXPECT_FALSE(sums_wanted(output.narrow(0, 1, 2)));
}

TEST(BiasSums, are_taken_once) {
  const auto gradient = at::ones({3, 4}), sums = at::ones({4});
  leave_sums(gradient, sums);
  EXPECT_FALSE(take_sums(at::ones({3, 4})).defined());
  EXPECT_TRUE(take_sums(gradient.view({1, 3, 4})).is_same(sums));
  EXPECT_FALSE(take_sums(gradient).defined());
}

TEST(BiasSums, are_void_once_the_gradient_has_changed) {
  auto gradient = at::ones({3, 4});
  leave_sums(gradient, at::ones({4}));
  gradient.add_(1);
  EXPECT_FALSE(take_sums(gradient).defined());
}

TEST(BiasSums, keep_no_gradient_alive) {
  auto gradient = at::ones({3, 4});
  const auto* where = gradient.const_data_ptr();
  leave_sums(gradient, at::ones({4}));
  EXPECT_EQ(gradient.storage().use_count(), 1);
  gradient = at::Tensor();
  // Other memory, even at the same place, is another gradient.
  const auto next = at::ones({3, 4});
  if (next.const_data_ptr() == where) {
    EXPECT_FALSE(take_sums(next).defined());
  }
}

}  // namespace
}  // namespace hyperion::kernels
