#include "hyperion/profile/marks.h"

#include <gtest/gtest.h>

#include <map>

#include "hyperion/base/error.h"

namespace hyperion::profile {
namespace {

bool asked_for(const std::map<std::string, std::string>& environment) {
  return marks_asked_for([&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  });
}

TEST(Marks, are_asked_for_by_profilers_and_by_hand) {
  EXPECT_FALSE(asked_for({}));
  EXPECT_TRUE(asked_for({{"NVTX_INJECTION64_PATH", "/opt/nsight/libToolsInjection64.so"}}));
  EXPECT_TRUE(asked_for({{"ROCPROF_MARKER_API_TRACE", "1"}}));
  EXPECT_FALSE(asked_for({{"ROCPROF_MARKER_API_TRACE", "0"}}));
  EXPECT_TRUE(asked_for({{"HYPERION_MARKS", "1"}}));
  EXPECT_FALSE(asked_for({{"HYPERION_MARKS", "0"}, {"NVTX_INJECTION64_PATH", "/opt/nsight/libToolsInjection64.so"}}));
  EXPECT_THROW(asked_for({{"HYPERION_MARKS", "yes"}}), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::profile
