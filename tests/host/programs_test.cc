#include "hyperion/host/programs.h"

#include <gtest/gtest.h>

#include "tests/host/support_tree.h"

namespace hyperion::host {
namespace {

TEST(programs, the_search_path_comes_before_the_usual_places) {
  Tree tree;
  tree.program("/home/bin/nsys").program("/usr/local/cuda/bin/nsys").program("/usr/local/cuda/bin/ncu");
  const std::string path = (tree.root() / "nothing").string() + ":" + (tree.root() / "home/bin").string();
  EXPECT_EQ(find_program("nsys", path, tree.root()), tree.root() / "home/bin/nsys");
  EXPECT_EQ(find_program("ncu", path, tree.root()), tree.root() / "usr/local/cuda/bin/ncu");
  EXPECT_EQ(find_program("rocprofv3", path, tree.root()), std::nullopt);
}

TEST(programs, of_several_versions_the_newest_is_taken) {
  Tree tree;
  tree.program("/opt/nvidia/nsight-systems/2024.6.2/bin/nsys").program("/opt/nvidia/nsight-systems/2025.3.1/bin/nsys");
  tree.program("/opt/rocm-6.4.0/bin/rocprofv3");
  EXPECT_EQ(find_program("nsys", "", tree.root()), tree.root() / "opt/nvidia/nsight-systems/2025.3.1/bin/nsys");
  EXPECT_EQ(find_program("rocprofv3", "", tree.root()), tree.root() / "opt/rocm-6.4.0/bin/rocprofv3");
}

TEST(programs, a_file_that_cannot_be_run_is_none) {
  Tree tree;
  tree.file("/opt/rocm/bin/rocprof-sys", "text").program("/opt/rocm/bin/ncu/inside");
  EXPECT_EQ(find_program("rocprof-sys", "", tree.root()), std::nullopt);
  EXPECT_EQ(find_program("ncu", "", tree.root()), std::nullopt);
}

}  // namespace
}  // namespace hyperion::host
