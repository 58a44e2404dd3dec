#include "hyperion/host/cpu.h"

#include <gtest/gtest.h>

#include "tests/host/support_tree.h"

namespace hyperion::host {
namespace {

using Sets = std::vector<std::string>;

TEST(cpu, reads_a_two_socket_x86_machine_with_hyper_threads) {
  Tree tree;
  tree.file(
      "/proc/cpuinfo",
      "processor\t: 0\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\nflags\t\t: fpu avx avx2 fma avx512f avx512_bf16 "
      "amx_tile amx_bf16\n\nprocessor\t: 1\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\n");
  tree.file("/sys/devices/system/cpu/online", "0-3\n").file("/sys/devices/system/node/online", "0-1\n");
  for (const char* core : {"0", "2"})
    tree.file(std::string("/sys/devices/system/cpu/cpu") + core + "/topology/core_cpus_list", "0,2\n");
  for (const char* core : {"1", "3"})
    tree.file(std::string("/sys/devices/system/cpu/cpu") + core + "/topology/core_cpus_list", "1,3\n");
  const Cpu cpu = read_cpu(tree.root(), 4, "x86_64");
  EXPECT_EQ(cpu.model, "Intel(R) Xeon(R) Platinum 8480+");
  EXPECT_EQ(cpu.logical_cores, 4);
  EXPECT_EQ(cpu.physical_cores, 2);
  EXPECT_EQ(cpu.numa_nodes, 2);
  EXPECT_EQ(cpu.vector_sets, (Sets{"AVX", "AVX2", "FMA", "AVX-512", "AVX-512 bf16", "AMX", "AMX bf16"}));
  EXPECT_FALSE(cpu.quota_cores.has_value());
  EXPECT_EQ(cpu.usable_cores(), 4);
}

TEST(cpu, names_an_arm_core_from_its_numbers) {
  Tree tree;
  tree.file("/proc/cpuinfo",
            "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm sve2\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  const Cpu cpu = read_cpu(tree.root(), 1, "aarch64");
  EXPECT_EQ(cpu.model, "Neoverse V2");
  EXPECT_EQ(cpu.vector_sets, (Sets{"NEON", "int8 matrix", "bf16", "SVE", "SVE2"}));
  tree.file("/proc/cpuinfo", "CPU implementer\t: 0x99\nCPU part\t: 0x123\n");
  EXPECT_EQ(read_cpu(tree.root(), 1, "aarch64").model, "ARM implementer 0x99 part 0x123");
}

TEST(cpu, knows_which_products_it_has) {
  const auto with = [](Sets sets) {
    Cpu cpu;
    cpu.vector_sets = std::move(sets);
    return std::pair(cpu.multiplies("bf16"), cpu.multiplies("fp16"));
  };
  EXPECT_EQ(with({"AVX2", "AVX-512"}), std::pair(false, false));
  EXPECT_EQ(with({"AVX-512 bf16"}), std::pair(true, false));
  EXPECT_EQ(with({"AMX bf16", "AMX fp16"}), std::pair(true, true));
  EXPECT_EQ(with({"NEON", "NEON fp16", "NEON dot"}), std::pair(false, false));  // Neoverse N1
  EXPECT_EQ(with({"NEON", "NEON fp16", "NEON fp16 products", "bf16"}), std::pair(true, true));
  EXPECT_EQ(with({}), std::pair(true, true)) << "unknown";
}

TEST(cpu, quota_and_affinity_both_bound_the_usable_cores) {
  Tree tree;
  tree.file("/sys/devices/system/cpu/online", "0-63\n");
  tree.file("/proc/self/cgroup", "0::/kube/pod\n").file("/sys/fs/cgroup/kube/cpu.max", "250000 100000\n");
  tree.file("/sys/fs/cgroup/kube/pod/cpu.max", "max 100000\n");
  const Cpu cpu = read_cpu(tree.root(), 16, "x86_64");
  ASSERT_TRUE(cpu.quota_cores.has_value());
  EXPECT_DOUBLE_EQ(*cpu.quota_cores, 2.5);
  EXPECT_EQ(cpu.usable_cores(), 3);
  EXPECT_EQ(read_cpu(tree.root(), 2, "x86_64").usable_cores(), 2);
}

TEST(cpu, an_empty_machine_is_unknown_not_invented) {
  const Tree tree;
  const Cpu cpu = read_cpu(tree.root(), 0, "unknown");
  EXPECT_EQ(cpu.model, "unknown");
  EXPECT_EQ(cpu.logical_cores, 0);
  EXPECT_EQ(cpu.physical_cores, 0);
  EXPECT_EQ(cpu.numa_nodes, 0);
  EXPECT_TRUE(cpu.vector_sets.empty());
  EXPECT_EQ(cpu.usable_cores(), 1);
}

TEST(cpu, this_machine_has_a_core_to_run_this_test) {
  const Cpu cpu = this_cpu();
  EXPECT_GE(cpu.allowed_cores, 1);
  EXPECT_GE(cpu.logical_cores, cpu.allowed_cores);
}

}  // namespace
}  // namespace hyperion::host
