#include "hyperion/doctor/gpu_checks.h"

#include <gtest/gtest.h>

namespace hyperion::doctor {
namespace {

bool says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

host::Gpu h200() {
  host::Gpu gpu;
  gpu.name = "NVIDIA H200", gpu.driver = "580.65.06", gpu.cuda_driver = 13000;
  gpu.memory_total = uint64_t{140} << 30, gpu.memory_used = uint64_t{1} << 30;
  gpu.temperature = 40, gpu.power = 75, gpu.power_limit = 700;
  gpu.sm_clock = 1980, gpu.memory_clock = 3201;
  gpu.pcie_generation = 5, gpu.pcie_generation_max = 5, gpu.pcie_width = 16, gpu.pcie_width_max = 16;
  gpu.links = 18;
  return gpu;
}

host::GpuSurvey one_gpu() {
  host::GpuSurvey survey;
  survey.gpus = {h200()};
  return survey;
}

TEST(gpu_checks, a_sound_gpu_tells_all_its_facts) {
  const Check check = check_gpu(h200(), "13.0");
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.name, "gpu 0");
  EXPECT_EQ(check.finding,
            "NVIDIA H200, 1.0 GiB used of 140.0 GiB, 40 C, 75 of 700 W, SM 1980 MHz, memory 3201 MHz, "
            "PCIe gen 5 x16 (max gen 5 x16), NVLink 18 active, driver 580.65.06, up to CUDA 13.0");
}

TEST(gpu_checks, heat_warns) {
  host::Gpu gpu = h200();
  gpu.temperature = 95;
  EXPECT_EQ(check_gpu(gpu, "13.0").verdict, Verdict::warn);
  EXPECT_TRUE(says(check_gpu(gpu, "13.0").hint, "95 C is hot"));
  gpu.slowdown_temperature = 105;
  EXPECT_EQ(check_gpu(gpu, "13.0").verdict, Verdict::ok);
  gpu.temperature = 100;
  EXPECT_EQ(check_gpu(gpu, "13.0").verdict, Verdict::warn);
}

TEST(gpu_checks, reduced_pcie_width_warns_but_an_idle_generation_does_not) {
  host::Gpu gpu = h200();
  gpu.pcie_generation = 1;
  EXPECT_EQ(check_gpu(gpu, "13.0").verdict, Verdict::ok);
  gpu.pcie_width = 8;
  EXPECT_EQ(check_gpu(gpu, "13.0").verdict, Verdict::warn);
  EXPECT_TRUE(says(check_gpu(gpu, "13.0").hint, "x8 of x16"));
}

TEST(gpu_checks, a_driver_of_an_older_major_cuda_warns) {
  host::Gpu gpu = h200();
  gpu.cuda_driver = 12080;
  EXPECT_EQ(check_gpu(gpu, "13.0").verdict, Verdict::warn);
  EXPECT_TRUE(says(check_gpu(gpu, "13.0").hint, "too old for CUDA 13.0"));
  EXPECT_EQ(check_gpu(gpu, "12.9").verdict, Verdict::ok);
  EXPECT_EQ(check_gpu(gpu, "").verdict, Verdict::ok);
}

TEST(gpu_checks, memory_held_by_others_warns_and_hints_add_up) {
  host::Gpu gpu = h200();
  gpu.memory_used = uint64_t{100} << 30, gpu.temperature = 95;
  const Check check = check_gpu(gpu, "13.0");
  EXPECT_EQ(check.verdict, Verdict::warn);
  EXPECT_TRUE(says(check.hint, "nvidia-smi"));
  EXPECT_TRUE(says(check.hint, "hot"));
}

TEST(gpu_checks, unknown_facts_are_left_out_and_judge_nothing) {
  const Check check = check_gpu(host::Gpu{}, "13.0");
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.finding, "unknown");
}

TEST(gpu_checks, no_gpu_is_fine_for_a_cpu_build_and_a_warning_for_a_gpu_build) {
  host::GpuSurvey survey;
  survey.absent = {"libnvidia-ml.so.1 not found"};
  EXPECT_EQ(check_no_gpu(survey, false).verdict, Verdict::ok);
  EXPECT_EQ(check_no_gpu(survey, false).finding, "none: libnvidia-ml.so.1 not found");
  EXPECT_EQ(check_no_gpu(survey, true).verdict, Verdict::warn);
  EXPECT_EQ(check_gpu_use(survey, {}, false, nullptr).verdict, Verdict::ok);
  EXPECT_EQ(check_gpu_use(survey, {0, "no driver"}, true, nullptr).verdict, Verdict::ok);
}

TEST(gpu_checks, a_cpu_build_on_a_gpu_machine_says_what_to_build) {
  const Check check = check_gpu_use(one_gpu(), {}, false, nullptr);
  EXPECT_EQ(check.verdict, Verdict::warn);
  EXPECT_TRUE(says(check.hint, "--preset cuda"));
}

TEST(gpu_checks, gpus_that_libtorch_cannot_use_fail_unless_hidden_on_purpose) {
  EXPECT_EQ(check_gpu_use(one_gpu(), {1, ""}, true, nullptr).verdict, Verdict::ok);
  EXPECT_EQ(check_gpu_use(one_gpu(), {1, "GPU 0: no kernel image"}, true, nullptr).verdict, Verdict::fail);
  EXPECT_EQ(check_gpu_use(one_gpu(), {0, ""}, true, "7").verdict, Verdict::fail);
  EXPECT_EQ(check_gpu_use(one_gpu(), {0, "no device"}, true, "").verdict, Verdict::ok);
  EXPECT_EQ(check_gpu_use(one_gpu(), {0, "no device"}, true, "-1").verdict, Verdict::ok);
}

}  // namespace
}  // namespace hyperion::doctor
