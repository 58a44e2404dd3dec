#include "hyperion/nn/expert_load.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "hyperion/nn/dispatch.h"
#include "tests/support/devices.h"

namespace hyperion::nn {
namespace {

struct Plain {
  std::vector<int64_t> counts;
  int64_t dropped = 0;
};

// One by one, as they queue.
Plain count_one_by_one(const at::Tensor& chosen, int64_t experts, int64_t most) {
  Plain plain{std::vector<int64_t>(static_cast<size_t>(experts))};
  const auto flat = chosen.cpu().reshape({-1});
  for (int64_t i = 0; i < flat.numel(); ++i) {
    const int64_t expert = flat[i].item<int64_t>();
    if (expert < 0) continue;
    plain.dropped += ++plain.counts[static_cast<size_t>(expert)] > most && most > 0 ? 1 : 0;
  }
  return plain;
}

TEST(ExpertLoad, counts_choices_and_those_without_room) {
  for (const auto device : testing::devices())
    for (const auto& [tokens, experts, choices, most] : std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{
             {1, 1, 1, 0}, {7, 4, 2, 0}, {33, 5, 3, 4}, {64, 60, 4, 2}, {9, 8, 1, 1}}) {
      auto chosen = at::randint(0, experts, {tokens, choices}, at::TensorOptions(device).dtype(at::kLong));
      if (most > 0 && tokens > 8) chosen[3][0] = -1;
      kernels::Capacity capacity{most};
      if (most == 4)
        capacity = {6, at::full({}, most, chosen.options().dtype(at::kInt))};  // padding counts for nothing
      const auto places = kernels::expert_places(chosen, experts, capacity);
      const auto counter = at::zeros({experts + 1}, chosen.options().dtype(at::kInt));
      for (int times = 0; times < 2; ++times) count_choices(counter, chosen, places.ends, capacity);
      const auto plain = count_one_by_one(chosen, experts, most);
      int64_t sum = 0;
      for (int64_t i = 0; i < experts; ++i) {
        sum += 2 * plain.counts[static_cast<size_t>(i)];
        EXPECT_EQ(counter[i].item<int64_t>(), sum) << device << " " << i;
      }
      EXPECT_EQ(counter[experts].item<int64_t>(), 2 * plain.dropped) << device;
    }
}

TEST(ExpertLoad, is_that_of_the_busiest_expert_of_any_layer) {
  // Of 8 choices each: 2 2 2 2; and 6 0 2 0, of which one found no room.
  const auto counted = at::tensor({2, 4, 6, 8, 0, 6, 6, 8, 8, 1}, at::kInt).view({2, 5});
  const auto load = load_of(counted, /*with_capacity=*/true);
  EXPECT_DOUBLE_EQ(load.busiest, 3);
  EXPECT_DOUBLE_EQ(load.idle, 0.25);
  EXPECT_DOUBLE_EQ(load.dropped.value(), 1.0 / 16);
  EXPECT_FALSE(load_of(counted, false).dropped.has_value());
  const auto nothing = load_of(at::zeros({2, 5}, at::kInt), false);
  EXPECT_DOUBLE_EQ(nothing.busiest, 0);
  EXPECT_DOUBLE_EQ(nothing.idle, 1);
}

}  // namespace
}  // namespace hyperion::nn
