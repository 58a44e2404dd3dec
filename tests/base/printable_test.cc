#include "hyperion/base/printable.h"

#include <gtest/gtest.h>

#include "hyperion/base/error.h"

namespace hyperion::base {
namespace {

TEST(Printable, escapes_what_a_terminal_would_obey_and_nothing_else) {
  EXPECT_EQ(printable("a\tb\nc \xE4\xBD\xA0 \xC2\xA9"), "a\tb\nc \xE4\xBD\xA0 \xC2\xA9");
  EXPECT_EQ(printable(std::string_view("\0\x1b[2J\r\x7f", 7)), "\\x00\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(printable("\xC2\x9b"
                      "31m\xC2"),
            "\\x9b31m\xC2");
}

TEST(Printable, on_one_line_escapes_line_ends_and_tabs_too) {
  EXPECT_EQ(printable_line("a\tb\nc\x1b \xC2\xA9"), "a\\tb\\nc\\x1b \xC2\xA9");
}

TEST(Printable, errors_and_their_hints_are) {
  EXPECT_EQ(error_text(Error("no recipe at x\ny", "a\tb")), "error: no recipe at x\\ny\nhint: a\\tb\n");
  EXPECT_EQ(error_text(Error("none is good:\n  step 8: a\nb\n  step 4: c")),
            "error: none is good:\n  step 8: a\\nb\n  step 4: c\n");
  EXPECT_EQ(error_text(Error("no \x1b]0;x\x07", "\x1b")), "error: no \\x1b]0;x\\x07\nhint: \\x1b\n");
}

}  // namespace
}  // namespace hyperion::base
