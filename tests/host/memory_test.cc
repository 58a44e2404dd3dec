#include "hyperion/host/memory.h"

#include <gtest/gtest.h>

#include "hyperion/host/cgroup.h"
#include "tests/host/support_tree.h"

namespace hyperion::host {
namespace {

constexpr uint64_t kKibibyte = 1024;
constexpr const char* kMeminfo = "MemTotal:       24643328 kB\nMemFree:        1000 kB\nMemAvailable:   24010516 kB\n";

TEST(memory, reads_total_and_available) {
  Tree tree;
  tree.file("/proc/meminfo", kMeminfo);
  const Memory found = memory(tree.root());
  EXPECT_EQ(found.total, 24643328 * kKibibyte);
  EXPECT_EQ(found.available, 24010516 * kKibibyte);
  EXPECT_EQ(found.usable(), found.available);
}

TEST(memory, old_kernels_without_available_give_what_is_free) {
  Tree tree;
  tree.file("/proc/meminfo", "MemTotal: 4000 kB\nMemFree: 1000 kB\n");
  EXPECT_EQ(memory(tree.root()).available, 1000 * kKibibyte);
}

TEST(memory, the_tightest_group_above_bounds_it) {
  Tree tree;
  tree.file("/proc/meminfo", kMeminfo).file("/proc/self/cgroup", "0::/a/b\n");
  tree.file("/sys/fs/cgroup/a/memory.max", "1073741824\n").file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  const Memory found = memory(tree.root());
  ASSERT_TRUE(found.cgroup_limit.has_value());
  EXPECT_EQ(*found.cgroup_limit, uint64_t{1} << 30);
  EXPECT_EQ(found.usable(), uint64_t{1} << 30);
}

TEST(memory, groups_of_version_1_count_and_their_endless_limit_does_not) {
  Tree tree;
  tree.file("/proc/self/cgroup", "4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n");
  tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  tree.file("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "50000\n")
      .file("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroup_limits(tree.root()).memory_bytes.has_value());
  EXPECT_DOUBLE_EQ(cgroup_limits(tree.root()).cpus.value(), 0.5);
  tree.file("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "2048\n");
  EXPECT_EQ(cgroup_limits(tree.root()).memory_bytes.value(), 2048u);
}

TEST(memory, without_proc_it_is_unknown) {
  const Tree tree;
  EXPECT_EQ(memory(tree.root()).total, 0u);
  EXPECT_FALSE(memory(tree.root()).cgroup_limit.has_value());
}

}  // namespace
}  // namespace hyperion::host
