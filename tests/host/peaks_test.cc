#include "hyperion/host/peaks.h"

#include <gtest/gtest.h>

namespace hyperion::host {
namespace {

double bf16(const char* name) {
  const Peaks* peaks = find_peaks(name);
  return peaks ? peaks->bf16 : -1;
}

TEST(Peaks, known_by_the_names_drivers_report) {
  EXPECT_DOUBLE_EQ(bf16("NVIDIA H200"), 989.5);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA H100 80GB HBM3"), 989.5);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA H100 PCIe"), 756.5);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA H100 NVL"), 835.5);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA A100-SXM4-80GB"), 312);
  EXPECT_DOUBLE_EQ(bf16("A100-SXM4-40GB"), 312);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA A100 80GB PCIe"), 312);
  EXPECT_DOUBLE_EQ(bf16("NVIDIA GeForce RTX 4090"), 165.2);
  EXPECT_DOUBLE_EQ(bf16("AMD Instinct MI300X"), 1307.4);
  EXPECT_DOUBLE_EQ(bf16("AMD Instinct MI300X OAM"), 1307.4);
  EXPECT_DOUBLE_EQ(bf16("AMD Instinct MI250X"), 191.5);
}

TEST(Peaks, memory_tells_siblings_apart) {
  EXPECT_DOUBLE_EQ(find_peaks("NVIDIA H200")->bandwidth, 4800);
  EXPECT_DOUBLE_EQ(find_peaks("NVIDIA H100 80GB HBM3")->bandwidth, 3350);
  EXPECT_DOUBLE_EQ(find_peaks("NVIDIA A100-SXM4-40GB")->bandwidth, 1555);
  EXPECT_DOUBLE_EQ(find_peaks("NVIDIA A100-SXM4-80GB")->bandwidth, 2039);
}

TEST(Peaks, each_dtype_has_its_own) {
  const Peaks& h200 = *find_peaks("NVIDIA H200");
  EXPECT_DOUBLE_EQ(h200.of("fp32"), 67);
  EXPECT_DOUBLE_EQ(h200.of("tf32"), 494.5);
  EXPECT_DOUBLE_EQ(h200.of("fp8"), 1979);
  EXPECT_DOUBLE_EQ(h200.of("int8"), 0);
  EXPECT_DOUBLE_EQ(find_peaks("Tesla V100-SXM2-32GB")->of("bf16"), 0);
}

TEST(Peaks, a_sibling_or_a_slice_is_not_taken_for_the_whole) {
  for (const char* name : {"NVIDIA A10G", "NVIDIA GeForce RTX 4090 D", "NVIDIA GeForce RTX 4090 Laptop GPU",
                           "NVIDIA H20", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA", ""}) {
    EXPECT_EQ(find_peaks(name), nullptr) << name;
  }
}

}  // namespace
}  // namespace hyperion::host
