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

TEST(KernelNames, tell_what_a_kernel_is_for) {
  const std::pair<const char*, KernelKind> cases[] = {
      {"nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTT", KernelKind::product},
      {"void cublasLt::splitKreduce_kernel<32, 16, int>(cublasLt::cublasSplitKParams<float>)", KernelKind::product},
      {"Cijk_Ailk_Bljk_BBS_BH_MT128x128x32", KernelKind::product},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3", KernelKind::attention},
      {"void cudnn::fusion::compute_dot_do_o_specialized<true, __nv_bfloat16>(float*)", KernelKind::attention},
      {"void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Traits>(Params)", KernelKind::attention},
      {"sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc", KernelKind::convolution},
      {"void cudnn::engines_precompiled::nhwcToNchwKernel<float>(Params)", KernelKind::convolution},
      {"void hyperion::kernels::(anonymous namespace)::update_kernel<AdamW>(Table)", KernelKind::update},
      {"void hyperion::kernels::(anonymous namespace)::squares_kernel<float>(Table)", KernelKind::update},
      {"void hyperion::kernels::(anonymous namespace)::norm_backward_kernel<float>(N)", KernelKind::ours},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>(int)", KernelKind::torch},
      {"Memset (Device)", KernelKind::memory},
      {"Memcpy DtoD (Device -> Device)", KernelKind::memory}};
  for (const auto& [name, kind] : cases) EXPECT_EQ(kind_text(kernel_kind(name)), kind_text(kind)) << name;
}

TEST(KernelNames, times_add_up_by_kind) {
  const auto times =
      kind_times({{"nvjet_a", 0, 1'000'000}, {"nvjet_b", 0, 2'000'000}, {"Memset (Device)", 0, 500'000}});
  EXPECT_DOUBLE_EQ(times[static_cast<size_t>(KernelKind::product)], 3);
  EXPECT_DOUBLE_EQ(times[static_cast<size_t>(KernelKind::memory)], 0.5);
  EXPECT_DOUBLE_EQ(times[static_cast<size_t>(KernelKind::ours)], 0);
}

}  // namespace
}  // namespace hyperion::profile
