#include "hyperion/text/base64.h"

#include <gtest/gtest.h>

namespace hyperion::text {
namespace {

TEST(Base64, is_padded_and_comes_back) {
  EXPECT_EQ(to_base64(""), "");
  EXPECT_EQ(to_base64("h"), "aA==");
  EXPECT_EQ(to_base64("hi"), "aGk=");
  EXPECT_EQ(to_base64("hi\xff"), "aGn/");
  std::string bytes;
  for (int i = 0; i < 70; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes) << i;
    bytes += static_cast<char>(i * 37);
  }
}

}  // namespace
}  // namespace hyperion::text
