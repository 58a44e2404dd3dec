#include "hyperion/doctor/machine_checks.h"

#include <gtest/gtest.h>

namespace hyperion::doctor {
namespace {

constexpr uint64_t kMebibyte = uint64_t{1} << 20, kGibibyte = uint64_t{1} << 30;

bool machine_says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

host::Cpu xeon() {
  host::Cpu cpu;
  cpu.model = "Xeon", cpu.architecture = "x86_64";
  cpu.logical_cores = 8, cpu.physical_cores = 4, cpu.allowed_cores = 8, cpu.numa_nodes = 2;
  cpu.vector_sets = {"AVX2", "AMX bf16", "AMX fp16"};
  return cpu;
}

TEST(machine_checks, a_sound_cpu_is_told_in_one_line) {
  const Check check = check_cpu(xeon());
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.finding,
            "Xeon (x86_64), 8 cores usable of 8 logical, 4 physical, 2 NUMA nodes; AVX2, AMX bf16, AMX fp16");
  EXPECT_EQ(check.hint, "");
}

TEST(machine_checks, x86_without_avx2_warns) {
  host::Cpu cpu = xeon();
  cpu.vector_sets = {"AVX"};
  EXPECT_EQ(check_cpu(cpu).verdict, Verdict::warn);
  EXPECT_TRUE(machine_says(check_cpu(cpu).hint, "AVX2"));
}

TEST(machine_checks, an_arm_cpu_needs_no_avx2_and_an_unknown_one_no_guess) {
  host::Cpu cpu = xeon();
  cpu.architecture = "aarch64", cpu.vector_sets = {"NEON"};
  EXPECT_EQ(check_cpu(cpu).verdict, Verdict::ok);
  EXPECT_EQ(check_cpu(host::Cpu{}).verdict, Verdict::ok);
  EXPECT_TRUE(machine_says(check_cpu(host::Cpu{}).finding, "NUMA unknown"));
}

TEST(machine_checks, a_cpu_without_products_in_16_bits_is_told_to_train_in_fp32) {
  host::Cpu cpu = xeon();
  EXPECT_EQ(check_cpu(cpu).hint, "");
  cpu.vector_sets = {"AVX2"};
  EXPECT_EQ(check_cpu(cpu).verdict, Verdict::ok) << "it trains, on a GPU in any precision";
  EXPECT_TRUE(machine_says(check_cpu(cpu).hint, "no bf16 and fp16 products: fp32 will be faster"));
  cpu.vector_sets = {"AVX2", "AVX-512 bf16"};
  EXPECT_TRUE(machine_says(check_cpu(cpu).hint, "no fp16 products: fp32 will be faster"));
  EXPECT_EQ(check_cpu(host::Cpu{}).hint, "") << "unknown is no reason to speak";
}

TEST(machine_checks, a_type_that_was_measured_to_be_slow_is_told_whatever_the_features_say) {
  const host::Cpu cpu = xeon();
  EXPECT_EQ(check_cpu(cpu, {4.3, 11.6}).hint,
            "bf16 takes about 4 times and fp16 about 12 times as long as fp32 here: train in fp32 on this CPU");
  EXPECT_EQ(check_cpu(cpu, {4.3, 1.2}).hint,
            "bf16 takes about 4 times as long as fp32 here: train in fp32 on this CPU");
  EXPECT_EQ(check_cpu(cpu, {4.3, 1.2}).verdict, Verdict::ok);
  EXPECT_EQ(check_cpu(cpu, {0.6, 1.4}).hint, "");
  host::Cpu plain = xeon();
  plain.vector_sets = {"AVX2"};
  EXPECT_EQ(check_cpu(plain, {0.9, 1.1}).hint, "") << "what was measured counts before what was guessed";
}

TEST(machine_checks, less_than_one_core_of_quota_warns) {
  host::Cpu cpu = xeon();
  cpu.quota_cores = 0.5;
  EXPECT_EQ(check_cpu(cpu).verdict, Verdict::warn);
  EXPECT_TRUE(machine_says(check_cpu(cpu).finding, "1 core usable"));
}

TEST(machine_checks, memory_fails_when_nothing_fits_and_warns_when_little_does) {
  EXPECT_EQ(check_memory({16 * kGibibyte, 8 * kGibibyte, {}}).verdict, Verdict::ok);
  EXPECT_EQ(check_memory({16 * kGibibyte, kGibibyte, {}}).verdict, Verdict::warn);
  const Check full = check_memory({16 * kGibibyte, 100 * kMebibyte, {}});
  EXPECT_EQ(full.verdict, Verdict::fail);
  EXPECT_TRUE(machine_says(full.hint, "end programs"));
}

TEST(machine_checks, a_tight_container_blames_the_container) {
  const Check check = check_memory({16 * kGibibyte, 8 * kGibibyte, kGibibyte});
  EXPECT_EQ(check.verdict, Verdict::warn);
  EXPECT_TRUE(machine_says(check.finding, "may hold 1.0 GiB"));
  EXPECT_TRUE(machine_says(check.hint, "limit of the container"));
}

host::Disk disk(uint64_t free, const char* filesystem = "ext4") {
  return {"/runs", 100 * kGibibyte, free, filesystem, true, ""};
}

TEST(machine_checks, a_full_disk_fails_and_a_tight_one_warns) {
  EXPECT_EQ(check_disk_space(disk(50 * kGibibyte)).verdict, Verdict::ok);
  EXPECT_EQ(check_disk_space(disk(kGibibyte)).verdict, Verdict::warn);
  EXPECT_EQ(check_disk_space(disk(kMebibyte)).verdict, Verdict::fail);
  EXPECT_TRUE(machine_says(check_disk_space(disk(kMebibyte)).hint, "HYPERION_RUNS"));
}

TEST(machine_checks, a_folder_in_memory_warns_that_it_will_not_last) {
  EXPECT_EQ(check_disk_space(disk(50 * kGibibyte, "tmpfs")).verdict, Verdict::warn);
}

TEST(machine_checks, an_unwritable_folder_fails_with_the_reason) {
  host::Disk refused = disk(50 * kGibibyte);
  refused.writable = false, refused.not_writable_because = "Permission denied";
  const Check check = check_disk_space(refused);
  EXPECT_EQ(check.verdict, Verdict::fail);
  EXPECT_EQ(check.finding, "cannot write to /runs: Permission denied");
}

TEST(machine_checks, disk_speed_is_judged_by_the_trial) {
  EXPECT_EQ(check_disk_speed({{64 * kMebibyte, 500e6}, ""}).verdict, Verdict::ok);
  EXPECT_EQ(check_disk_speed({{64 * kMebibyte, 500e6}, ""}).finding, "500 MB/s written and synced (64.0 MiB trial)");
  EXPECT_EQ(check_disk_speed({{64 * kMebibyte, 5e6}, ""}).verdict, Verdict::warn);
  EXPECT_EQ(check_disk_speed({{0, 0}, ""}).verdict, Verdict::warn);
  EXPECT_EQ(check_disk_speed({{0, 0}, "cannot write x: No space left on device"}).verdict, Verdict::fail);
}

constexpr double kLate2026 = 1.794e9;

TEST(machine_checks, a_clock_before_2026_warns) {
  EXPECT_EQ(check_clock({kLate2026, 1e-6, true, false}).verdict, Verdict::ok);
  EXPECT_EQ(check_clock({1767225599, 1e-6, true, false}).verdict, Verdict::warn);
  EXPECT_TRUE(machine_says(check_clock({0, 1e-6, true, false}).hint, "set the clock"));
}

TEST(machine_checks, a_monotonic_clock_that_stands_still_fails) {
  EXPECT_EQ(check_clock({kLate2026, 0, true, false}).verdict, Verdict::fail);
}

TEST(machine_checks, an_unkept_clock_matters_only_to_several_processes) {
  EXPECT_EQ(check_clock({kLate2026, 1e-6, false, false}).verdict, Verdict::ok);
  EXPECT_EQ(check_clock({kLate2026, 1e-6, false, true}).verdict, Verdict::warn);
  EXPECT_EQ(check_clock({kLate2026, 1e-6, {}, true}).verdict, Verdict::ok);
}

}  // namespace
}  // namespace hyperion::doctor
