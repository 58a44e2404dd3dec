#include "hyperion/device/device.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::device {
namespace {

TEST(Device, a_missing_gpu_is_a_preflight_error_with_a_hint) {
  EXPECT_TRUE(open_device("cpu").is_cpu());
  EXPECT_EQ(open_device("auto").is_cuda(), gpu_count() > 0);
  try {
    open_device("cuda:99");
    FAIL() << "nobody has a hundred GPUs";
  } catch (const base::PreflightError& error) {
    EXPECT_EQ(static_cast<const base::Error&>(error).exit_code(), 3);
    EXPECT_NE(error.hint().find("doctor"), std::string::npos);
  }
}

}  // namespace
}  // namespace hyperion::device
