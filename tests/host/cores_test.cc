#include "hyperion/host/cores.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>

#include "tests/host/support_tree.h"

namespace hyperion::host {
namespace {

std::vector<int> first(int count) {
  std::vector<int> cores(static_cast<size_t>(count));
  std::iota(cores.begin(), cores.end(), 0);
  return cores;
}

using Shares = std::vector<std::vector<int>>;

TEST(Cores, lists_are_read_as_far_as_they_can_be) {
  EXPECT_EQ(listed_numbers("0-3,8"), (std::vector<int>{0, 1, 2, 3, 8}));
  EXPECT_EQ(listed_numbers("x,2,5-4,-1,1-999999999999"), (std::vector<int>{2}));
  EXPECT_TRUE(listed_numbers("").empty());
}

TEST(Cores, this_process_may_use_some) {
  const auto cores = allowed_cores();
  ASSERT_FALSE(cores.empty());
  EXPECT_TRUE(std::is_sorted(cores.begin(), cores.end()));
}

TEST(Cores, a_process_stays_in_one_numa_node) {
  Tree tree;
  tree.file("/sys/devices/system/node/online", "0-1\n");
  tree.file("/sys/devices/system/node/node0/cpulist", "0,2,4,6\n");
  tree.file("/sys/devices/system/node/node1/cpulist", "1,3,5,7\n");
  EXPECT_EQ(share_cores(tree.root(), first(8), 2), (Shares{{0, 2, 4, 6}, {1, 3, 5, 7}}));
  EXPECT_EQ(share_cores(tree.root(), first(8), 4), (Shares{{0, 2}, {4, 6}, {1, 3}, {5, 7}}));
}

TEST(Cores, both_threads_of_a_physical_core_go_to_one_process) {
  Tree tree;
  for (int core = 0; core < 4; ++core)
    tree.file("/sys/devices/system/cpu/cpu" + std::to_string(core) + "/topology/core_cpus_list",
              core % 2 == 0 ? "0,2" : "1,3");
  EXPECT_EQ(share_cores(tree.root(), first(4), 2), (Shares{{0, 2}, {1, 3}}));
}

TEST(Cores, shares_differ_by_one_core_at_most_and_leave_none_out) {
  Tree tree;
  for (int processes = 1; processes <= 9; ++processes) {
    const auto shares = share_cores(tree.root(), first(9), processes);
    ASSERT_EQ(shares.size(), static_cast<size_t>(processes));
    size_t all = 0, least = 9, most = 0;
    for (const auto& share : shares)
      all += share.size(), least = std::min(least, share.size()), most = std::max(most, share.size());
    EXPECT_EQ(all, 9u);
    EXPECT_LE(most, least + 1);
  }
}

// Two nodes of four cores; GPUs 0 and 1 hang on the second node, GPU 2 on the first, and a network card on none.
struct WithGpus : Tree {
  WithGpus() {
    file("/sys/devices/system/node/online", "0-1");
    file("/sys/devices/system/node/node0/cpulist", "0-3");
    file("/sys/devices/system/node/node1/cpulist", "4-7");
    device("0000:17:00.0", "0x10de", "0x030200", "1");
    device("0000:2a:00.0", "0x10de", "0x030200", "1");
    device("0000:3d:00.0", "0x15b3", "0x020000", "0");
    device("0000:63:00.0", "0x1002", "0x120000", "0");
  }
  void device(const std::string& place, const char* vendor, const char* kind, const char* node) {
    const std::string folder = "/sys/bus/pci/devices/" + place + "/";
    file(folder + "vendor", vendor), file(folder + "class", kind), file(folder + "numa_node", node);
  }
};

TEST(Cores, gpus_are_found_with_their_nodes_as_far_as_they_are_visible) {
  WithGpus tree;
  EXPECT_EQ(gpu_nodes(tree.root(), nullptr), (std::vector<int>{1, 1, 0}));
  EXPECT_EQ(gpu_nodes(tree.root(), "2,0"), (std::vector<int>{0, 1}));
  EXPECT_TRUE(gpu_nodes(tree.root(), "").empty());
  EXPECT_TRUE(gpu_nodes(tree.root(), "GPU-1234").empty());
  EXPECT_TRUE(gpu_nodes(tree.root(), "7").empty());
}

TEST(Cores, visible_gpus_are_told_by_either_vendors_variable) {
  ::unsetenv("CUDA_VISIBLE_DEVICES"), ::unsetenv("HIP_VISIBLE_DEVICES");
  EXPECT_EQ(visible_devices(), nullptr);
  ::setenv("HIP_VISIBLE_DEVICES", "2,0", 1);
  EXPECT_STREQ(visible_devices(), "2,0");
  ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_STREQ(visible_devices(), "1");
  ::unsetenv("CUDA_VISIBLE_DEVICES"), ::unsetenv("HIP_VISIBLE_DEVICES");
}

TEST(Cores, of_a_process_are_of_the_node_of_its_gpu) {
  WithGpus tree;
  EXPECT_EQ(share_cores_by_node(tree.root(), first(8), {1, 1, 0}), (Shares{{4, 5}, {6, 7}, {0, 1, 2, 3}}));
  EXPECT_TRUE(share_cores_by_node(tree.root(), first(8), {1, -1}).empty()) << "one is not known";
  EXPECT_TRUE(share_cores_by_node(tree.root(), first(5), {1, 1}).empty()) << "one core for two";
  EXPECT_EQ(cores_text({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(nodes_text(tree.root(), {2, 3, 4}), "0-1");
}

TEST(Cores, more_processes_than_cores_are_not_bound) { EXPECT_TRUE(share_cores("/", first(2), 3).empty()); }

}  // namespace
}  // namespace hyperion::host
