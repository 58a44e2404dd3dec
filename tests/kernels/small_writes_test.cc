#include "hyperion/kernels/small_writes.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <array>

#include "hyperion/base/error.h"
#include "tests/support/devices.h"

namespace hyperion::kernels {
namespace {

class Writes : public testing::OnDevice {
 protected:
  at::TensorOptions options(at::ScalarType type) const { return at::TensorOptions().device(GetParam()).dtype(type); }
};

TEST_P(Writes, numbers_and_copies_of_odd_sizes_and_places_arrive_and_touch_nothing_else) {
  for (const int64_t count : {1, 3, 8, 17, 4099, 200'003})
    for (const int64_t place : {0, 1, 16}) {
      const auto from = at::arange(count + place, options(at::kInt)).to(at::kShort).narrow(0, place, count);
      const auto whole = at::full({count + 2 * place + 1}, -7, options(at::kShort));
      const auto numbers = at::zeros({9}, options(at::kFloat)), one = at::zeros({1}, options(at::kInt));
      SmallWrites writes;
      writes.set(numbers, std::array{1.5f, -2.0f, 3e-9f});
      writes.copy(whole.narrow(0, place, count), from);
      writes.set(one, 0xfffffffeu);
      writes.queue();
      EXPECT_TRUE(whole.narrow(0, place, count).equal(from)) << count << " at " << place;
      EXPECT_TRUE(whole.narrow(0, place + count, place + 1).eq(-7).all().item<bool>());
      EXPECT_EQ(numbers[2].item<float>(), 3e-9f);
      EXPECT_EQ(numbers[3].item<float>(), 0.0f);
      EXPECT_EQ(one.item<int>(), -2);
    }
}

TEST_P(Writes, more_than_fit_or_larger_or_lying_otherwise_are_copied_all_the_same) {
  const auto small = at::arange(5, options(at::kLong)), large = at::arange(1 << 18, options(at::kLong));
  std::vector<at::Tensor> copies;
  SmallWrites writes;
  for (int i = 0; i < 12; ++i) writes.copy(copies.emplace_back(at::zeros({5}, options(at::kLong))), small);
  const auto big = at::zeros_like(large), turned = at::zeros({512, 512}, options(at::kLong));
  writes.copy(big, large);
  writes.copy(turned, large.view({512, 512}).t());
  writes.queue();
  for (const auto& copy : copies) EXPECT_TRUE(copy.equal(small));
  EXPECT_TRUE(big.equal(large));
  EXPECT_TRUE(turned.t().reshape({-1}).equal(large));
  writes.queue();  // there is nothing left
}

TEST_P(Writes, numbers_that_do_not_fit_are_an_error) {
  SmallWrites writes;
  const auto room = at::zeros({2}, options(at::kFloat));
  EXPECT_THROW(writes.set(room, std::array{1.0f, 2.0f, 3.0f}), base::Error);
}

INSTANTIATE_TEST_SUITE_P(Devices, Writes, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::kernels
