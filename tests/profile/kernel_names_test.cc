#include <gtest/gtest.h>

#include "hyperion/profile/trace.h"

namespace hyperion::profile {
namespace {

TEST(KernelNames, lose_templates_parameters_and_unnamed_namespaces) {
  EXPECT_EQ(short_kernel_name("void at::native::(anonymous namespace)::gelu<float, int<3>>(float*, int)"),
            "at::native::gelu");
  EXPECT_EQ(short_kernel_name("void hyperion::kernels::(anonymous namespace)::adamw_kernel<__nv_bfloat16>(Args)"),
            "hyperion::kernels::adamw_kernel");
  EXPECT_EQ(short_kernel_name("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT"),
            "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT");
  EXPECT_EQ(short_kernel_name("Memcpy DtoD (Device -> Device)"), "Memcpy DtoD ");
  EXPECT_EQ(short_kernel_name(""), "");
  EXPECT_EQ(short_kernel_name("broken<<<"), "broken");
}

TEST(KernelNames, totals_add_up_by_short_name_with_the_most_time_first) {
  const auto totals = kernel_totals({{"f<int>()", 0, 1'000'000}, {"g", 0, 5'000'000}, {"f<float>()", 7, 2'000'007}});
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].name, "g");
  EXPECT_EQ(totals[1].name, "f");
  EXPECT_EQ(totals[1].count, 2);
  EXPECT_DOUBLE_EQ(totals[1].milliseconds, 3);
}

}  // namespace
}  // namespace hyperion::profile
