#include "hyperion/comm/versions.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hyperion::comm {
namespace {

TEST(versions, loaded_libtorch_is_the_one_built_against) {
  const Versions versions = library_versions();
  EXPECT_EQ(versions.torch.name, "LibTorch");
  EXPECT_EQ(versions.torch.built.substr(0, 2), "2.");
  // A local tag such as +cu130 may follow the number.
  EXPECT_EQ(versions.torch.loaded.substr(0, versions.torch.built.size()), versions.torch.built);
  EXPECT_FALSE(versions.cpu_capability.empty());
}

TEST(versions, gpu_libraries_are_named_only_in_the_gpu_form) {
  const Versions versions = library_versions();
  if (!versions.gpu_form) {
    EXPECT_TRUE(versions.gpu_libraries.empty());
    return;
  }
  for (const char* name : {"CUDA runtime", "cuDNN", "NCCL"}) {
    const auto found = std::find_if(versions.gpu_libraries.begin(), versions.gpu_libraries.end(),
                                    [&](const LibraryVersion& library) { return library.name == name; });
    ASSERT_NE(found, versions.gpu_libraries.end()) << name;
    EXPECT_FALSE(found->built.empty()) << name;
  }
}

TEST(versions, gloo_reduces_over_the_loopback) { EXPECT_EQ(gloo_fault(), ""); }

TEST(versions, gpus_seen_by_libtorch_can_add) {
  const GpuUse use = try_gpus();
  if (use.count == 0) GTEST_SKIP() << "no GPU that LibTorch can use: " << use.fault;
  EXPECT_EQ(use.fault, "");
}

}  // namespace
}  // namespace hyperion::comm
