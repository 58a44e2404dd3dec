#include "hyperion/serve/line_editor.h"

#include <gtest/gtest.h>

namespace hyperion::serve {
namespace {

using State = LineEditor::State;

constexpr const char *kUp = "\x1b[A", *kDown = "\x1b[B", *kRight = "\x1b[C", *kLeft = "\x1b[D", *kDelete = "\x1b[3~";

State type(LineEditor& editor, const std::string& keys) {
  State state = State::typing;
  for (const char key : keys) state = editor.take(key);
  return state;
}

// The line with a | where the cursor stands.
std::string after_keys(const std::string& keys) {
  LineEditor editor;
  editor.begin();
  type(editor, keys);
  std::string text = editor.text();
  return text.insert(editor.cursor(), "|");
}

TEST(LineEditor, puts_what_is_typed_where_the_cursor_stands) {
  EXPECT_EQ(after_keys("abc"), "abc|");
  EXPECT_EQ(after_keys(std::string("abc") + kLeft + kLeft + "X"), "aX|bc");
  EXPECT_EQ(after_keys(std::string("abc") + kLeft + kRight + kRight + "d"), "abcd|");
  EXPECT_EQ(after_keys("abc\x1b[H"
                       "X\x1b[FY"),
            "XabcY|");
  EXPECT_EQ(after_keys("abc\x1b[1~X\x1b[4~Y"), "XabcY|");
  EXPECT_EQ(after_keys("abc\x1bOHX\x1bOFY"), "XabcY|");
  EXPECT_EQ(after_keys("abc\x01X\x05Y"), "XabcY|");
}

TEST(LineEditor, erases_to_either_side) {
  EXPECT_EQ(after_keys("abc\x7f"), "ab|");
  EXPECT_EQ(after_keys("\x7f\b"), "|");
  EXPECT_EQ(after_keys(std::string("abc") + kLeft + kLeft + kDelete), "a|c");
  EXPECT_EQ(after_keys(std::string("abc") + kDelete), "abc|");
  EXPECT_EQ(after_keys(std::string("abc") + kLeft + "\x04"), "ab|");
  EXPECT_EQ(after_keys("one two  \x17"), "one |");
  EXPECT_EQ(after_keys(std::string("one two") + kLeft + kLeft + "\x0b"), "one t|");
  EXPECT_EQ(after_keys(std::string("one two") + kLeft + kLeft + "\x15"), "|wo");
}

TEST(LineEditor, moves_over_whole_characters) {
  EXPECT_EQ(after_keys(std::string("aé日😀") + kLeft), "aé日|😀");
  EXPECT_EQ(after_keys(std::string("aé日😀") + kLeft + kLeft + "\x7f"), "a|日😀");
  EXPECT_EQ(after_keys(std::string("ae\u0301z") + kLeft + kLeft), "a|e\u0301z") << "an accent goes with its letter";
  EXPECT_EQ(after_keys("a\xff\xc3(b"), "a(b|") << "what is no UTF-8 is left out";
}

TEST(LineEditor, keys_that_are_not_known_do_nothing) {
  EXPECT_EQ(after_keys("a\x1b[5~b\x1b[15;2~c\x1bOPd\x1bxe"), "abcde|");
}

TEST(LineEditor, brings_earlier_lines_back) {
  LineEditor editor;
  for (const char* line : {"first", "second", "second"}) {
    editor.begin();
    EXPECT_EQ(type(editor, std::string(line) + "\n"), State::done);
  }
  editor.begin();
  type(editor, std::string("now") + kUp);
  EXPECT_EQ(editor.text(), "second");
  type(editor, std::string(kUp) + kUp);
  EXPECT_EQ(editor.text(), "first") << "the same line twice is remembered once";
  type(editor, std::string(kDown) + kDown + kDown);
  EXPECT_EQ(editor.text(), "now");
}

TEST(LineEditor, ends_at_a_line_and_at_ctrl_d_on_an_empty_one) {
  LineEditor editor;
  editor.begin();
  EXPECT_EQ(type(editor, "hi\r"), State::done);
  EXPECT_EQ(editor.text(), "hi");
  editor.begin();
  EXPECT_EQ(editor.text(), "");
  EXPECT_EQ(type(editor, "\x04"), State::ended);
}

TEST(LineEditor, counts_the_columns_of_a_terminal) {
  EXPECT_EQ(columns_of("abc"), 3u);
  EXPECT_EQ(columns_of("é日😀"), 5u);
  EXPECT_EQ(columns_of("e\u0301"), 1u);
}

TEST(LineEditor, draws_what_there_is_room_for_around_the_cursor) {
  LineEditor editor;
  editor.begin();
  type(editor, "日本語abc");
  EXPECT_EQ(editor.drawn("> ", 80), "\r> 日本語abc\x1b[K");
  EXPECT_EQ(editor.drawn("> ", 9), "\r> 語abc\x1b[K");
  type(editor, std::string(kLeft) + kLeft);
  EXPECT_EQ(editor.drawn("> ", 80), "\r> 日本語abc\x1b[K\x1b[2D");
  type(editor, "\x01");
  EXPECT_EQ(editor.drawn("> ", 9), "\r> 日本語\x1b[K\x1b[6D");
}

}  // namespace
}  // namespace hyperion::serve
