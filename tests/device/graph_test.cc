#include "hyperion/device/graph.h"

#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/support/devices.h"

namespace hyperion::device {
namespace {

class Recorded : public testing::OnDevice {};

// zero_() is a memset; it lies between kernels that read and write the same memory.
TEST_P(Recorded, memory_is_set_between_the_kernels_it_was_set_between) {
  if (!GetParam().is_cuda()) GTEST_SKIP() << "graphs are a GPU's";
  for (const int64_t count : {1, 3, 16, 17, 1000, 4099, 3'000'001})
    for (const auto type : {at::kByte, at::kHalf, at::kFloat, at::kDouble}) {
      const auto options = at::TensorOptions().dtype(type).device(GetParam());
      auto whole = at::full({count + 16}, 5, options), seen = at::full({count + 16}, 7, options);
      auto part = whole.narrow(0, 16, count);
      Graph graph;
      graph.record([&] {
        whole.add_(1);
        part.zero_();
        whole.add_(2);
        seen.copy_(whole);
        seen.mul_(3);
      });
      for (int turn = 1; turn <= 3; ++turn) {
        whole.fill_(4 + turn);
        graph.replay();
        EXPECT_TRUE(seen.narrow(0, 0, 16).eq(3 * (7 + turn)).all().item<bool>()) << count << " " << type;
        EXPECT_TRUE(seen.narrow(0, 16, count).eq(6).all().item<bool>()) << count << " " << type;
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, Recorded, ::testing::ValuesIn(testing::devices()), testing::device_name);

}  // namespace
}  // namespace hyperion::device
