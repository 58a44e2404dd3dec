#include "hyperion/base/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"

namespace hyperion::base {
namespace {

// The soft limit of this process, put back at the end.
class Descriptors : public ::testing::Test {
 protected:
  Descriptors() { ::getrlimit(RLIMIT_NOFILE, &before_); }
  ~Descriptors() override { ::setrlimit(RLIMIT_NOFILE, &before_); }
  void limit_to(rlim_t count) const {
    const rlimit low{count, before_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  }
  rlimit before_{};
};

TEST_F(Descriptors, are_raised_to_what_the_system_allows) {
  limit_to(16);
  EXPECT_EQ(descriptor_limit(), 16);
  raise_descriptor_limit();
  EXPECT_GE(descriptor_limit(), static_cast<int>(std::min<rlim_t>(before_.rlim_max, 1 << 20)));
}

TEST_F(Descriptors, that_are_lacking_are_told_as_that_and_not_as_a_disk_at_fault) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the undefined-behaviour sanitizer asks through a pipe whether an object is readable, and finds none";
#endif
  limit_to(3);
  try {
    real_files().list("/");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_TRUE(lacks_descriptors(error.code()));
    EXPECT_NE(error.hint().find("may have 3 files, pipes and sockets open"), std::string::npos) << error.hint();
  }
  EXPECT_FALSE(lacks_descriptors(ENOSPC));
}

}  // namespace
}  // namespace hyperion::base
