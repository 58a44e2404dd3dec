#include "hyperion/dash/growing_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/dash/support_run.h"

namespace hyperion::dash {
namespace {

using testing::append;

class Growing : public ::testing::Test {
 protected:
  base::test::TestFolder folder_;
  base::Path path_ = folder_ / "f";
  GrowingFile file_{path_};
};

TEST_F(Growing, gives_what_is_new_in_whole_lines) {
  EXPECT_EQ(file_.read_on(100).lines, "");
  append(path_, "one\ntw");
  EXPECT_EQ(file_.read_on(100).lines, "one\n");
  EXPECT_EQ(file_.read_on(100).lines, "");
  append(path_, "o\nthree\n");
  EXPECT_EQ(file_.read_on(100).lines, "two\nthree\n");
}

TEST_F(Growing, gives_a_long_file_in_pieces) {
  append(path_, "aaaa\nbbbb\ncccc\n");
  auto piece = file_.read_on(7);
  EXPECT_EQ(piece.lines, "aaaa\n");
  EXPECT_TRUE(piece.more);
  EXPECT_EQ(file_.read_on(7).lines, "bbbb\n");
  piece = file_.read_on(7);
  EXPECT_EQ(piece.lines, "cccc\n");
  EXPECT_FALSE(piece.more);
}

TEST_F(Growing, passes_over_a_line_that_is_too_long) {
  append(path_, "a\n" + std::string(40, 'x') + "\nb\n");
  std::string all;
  for (int i = 0; i < 20; ++i) all += file_.read_on(8).lines;
  EXPECT_EQ(all, "a\nb\n");
}

TEST_F(Growing, begins_anew_where_the_file_was_cut_or_replaced) {
  append(path_, "one\ntwo\n");
  EXPECT_FALSE(file_.read_on(100).anew);
  base::real_files().resize(path_, 4);
  auto piece = file_.read_on(100);
  EXPECT_TRUE(piece.anew);
  EXPECT_EQ(piece.lines, "one\n");
  base::write_atomically(base::real_files(), path_, "one\n2\n3\n");
  piece = file_.read_on(100);
  EXPECT_TRUE(piece.anew);
  EXPECT_EQ(piece.lines, "one\n2\n3\n");
}

TEST_F(Growing, a_pipe_in_place_of_a_file_holds_nobody_up) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(file_.read_on(100).lines, "");
  EXPECT_EQ(last_lines(path_, 100), "");
  EXPECT_EQ(first_line(path_, 100), "");
}

TEST_F(Growing, last_and_first_lines_are_whole) {
  append(path_, "head\none\ntwo\n");
  EXPECT_EQ(last_lines(path_, 6), "two\n");
  EXPECT_EQ(last_lines(path_, 100), "head\none\ntwo\n");
  EXPECT_EQ(first_line(path_, 100), "head");
  EXPECT_EQ(first_line(path_, 3), "");
}

}  // namespace
}  // namespace hyperion::dash
