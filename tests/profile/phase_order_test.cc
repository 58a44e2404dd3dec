#include "hyperion/profile/phase_order.h"

#include <gtest/gtest.h>

namespace hyperion::profile {
namespace {

constexpr int64_t kMs = 1'000'000;

void add_step(std::vector<TracedSpan>& spans, int64_t begin) {
  spans.push_back({"gemm", begin, begin + 2 * kMs});
  spans.push_back({"void cross_entropy_rows<float>()", begin + 2 * kMs, begin + 3 * kMs});
  spans.push_back({"cross_entropy_backward", begin + 3 * kMs, begin + 4 * kMs});
  spans.push_back({"gemm", begin + 4 * kMs, begin + 9 * kMs});
  spans.push_back({"Global_Norm", begin + 9 * kMs, begin + 10 * kMs});
  spans.push_back({"gemm between", begin + 10 * kMs, begin + 11 * kMs});
  spans.push_back({"adamw_kernel", begin + 11 * kMs, begin + 12 * kMs});
}

TEST(PhaseOrder, tells_forward_backward_and_optimizer_apart) {
  std::vector<TracedSpan> spans;
  for (int64_t i = 0; i < 3; ++i) add_step(spans, i * 12 * kMs);
  const auto phases = phases_by_order(spans, 3);
  ASSERT_TRUE(phases.has_value());
  EXPECT_DOUBLE_EQ((*phases)[1], 3);
  EXPECT_DOUBLE_EQ((*phases)[2], 6);
  EXPECT_DOUBLE_EQ((*phases)[3], 3);
}

TEST(PhaseOrder, says_nothing_where_names_do_not_tell) {
  std::vector<TracedSpan> spans;
  add_step(spans, 0);
  EXPECT_FALSE(phases_by_order(spans, 2).has_value());
  EXPECT_FALSE(phases_by_order({{"gemm", 0, 5}}, 1).has_value());
  EXPECT_FALSE(phases_by_order({}, 1).has_value());
  spans.pop_back();
  spans.erase(spans.begin() + 4);  // no optimizer
  EXPECT_FALSE(phases_by_order(spans, 1).has_value());
}

}  // namespace
}  // namespace hyperion::profile
