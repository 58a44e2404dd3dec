#include "hyperion/interop/text.h"

#include <gtest/gtest.h>

namespace hyperion::interop {
namespace {

TEST(Text, a_character_that_has_only_begun_waits) {
  EXPECT_EQ(whole_characters(""), 0u);
  EXPECT_EQ(whole_characters("abc"), 3u);
  EXPECT_EQ(whole_characters("caf\xC3"), 3u);
  EXPECT_EQ(whole_characters("caf\xC3\xA9"), 5u);
  EXPECT_EQ(whole_characters("\xE6\x97"), 0u);
  EXPECT_EQ(whole_characters("\xF0\x9F\x98"), 0u);
  EXPECT_EQ(whole_characters("a\xF0\x9F\x98\x80"), 5u);
}

TEST(Text, what_is_no_utf8_becomes_the_replacement_character) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(valid_utf8("na\xC3\xAFve \xF0\x9F\x98\x80"), "na\xC3\xAFve \xF0\x9F\x98\x80");
  EXPECT_EQ(valid_utf8("a\x80z"), "a" + mark + "z");
  EXPECT_EQ(valid_utf8("\xC3"), mark);
  EXPECT_EQ(valid_utf8("\xF0\x9F\x98z"), mark + "z") << "a sequence cut short is one";
  EXPECT_EQ(valid_utf8("\xED\xA0\x80"), mark + mark + mark) << "a surrogate";
  EXPECT_EQ(valid_utf8("\xC0\xAF"), mark + mark) << "an overlong form";
}

}  // namespace
}  // namespace hyperion::interop
