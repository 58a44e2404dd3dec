#include "hyperion/optim/clip.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "hyperion/base/random.h"

namespace hyperion::optim {
namespace {

at::Tensor random(std::vector<int64_t> sizes, uint64_t seed) {
  at::Tensor tensor = at::empty(sizes, at::kFloat);
  base::fill_normal(base::stream_key(seed, "gradient"), 0, tensor.numel(), 1, tensor.data_ptr<float>());
  return tensor;
}
double plain_norm(const std::vector<at::Tensor>& gradients) {
  double squares = 0;
  for (const auto& gradient : gradients) {
    const auto wide = gradient.to(at::kDouble).contiguous();
    for (int64_t i = 0; i < wide.numel(); ++i) squares += wide.data_ptr<double>()[i] * wide.data_ptr<double>()[i];
  }
  return std::sqrt(squares);
}
double value(const at::Tensor& tensor) { return tensor.item<float>(); }

TEST(Clip, norm_and_factor_are_those_of_plain_code) {
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> gradients;
    for (const int64_t size : {1, 7, 1001, 40'000}) gradients.push_back(random({size, 3}, size).to(type));
    gradients.push_back(random({5, 7}, 3).to(type).t());
    const double norm = plain_norm(gradients);
    for (const double limit : {1e-3, 1.0, norm / 2, norm * 2, 1e9}) {
      const auto [got, scale] = clip_factor(gradients, limit);
      EXPECT_EQ(got.scalar_type(), at::kFloat);
      EXPECT_EQ(scale.scalar_type(), at::kFloat);
      EXPECT_EQ(scale.numel(), 1);
      EXPECT_NEAR(value(got), norm, norm * 1e-5);
      EXPECT_NEAR(value(scale), std::min(1.0, limit / norm), 2e-5 * limit / norm);
    }
  }
}

TEST(Clip, types_may_mix) {
  const std::vector<at::Tensor> gradients = {random({11}, 1), random({13}, 2).to(at::kBFloat16)};
  EXPECT_NEAR(value(clip_factor(gradients, 1).norm), plain_norm(gradients), 1e-5);
}

TEST(Clip, a_limit_of_zero_switches_it_off) {
  const auto [norm, scale] = clip_factor({at::full({100}, 5.0, at::kFloat)}, 0);
  EXPECT_NEAR(value(norm), 50, 1e-4);
  EXPECT_EQ(value(scale), 1);
}

TEST(Clip, no_gradient_at_all_needs_no_clipping) {
  const auto [norm, scale] = clip_factor({at::full({3}, 0.0, at::kFloat), at::full({0}, 0.0, at::kFloat)}, 1);
  EXPECT_EQ(value(norm), 0);
  EXPECT_EQ(value(scale), 1);
}

TEST(Clip, a_broken_gradient_shows_in_the_norm) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  for (const double broken : {nan, infinite, -infinite})
    EXPECT_FALSE(
        std::isfinite(value(clip_factor({at::full({3}, 1.0, at::kFloat), at::full({2}, broken, at::kFloat)}, 1).norm)));
}

}  // namespace
}  // namespace hyperion::optim
