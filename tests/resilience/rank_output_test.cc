#include "hyperion/resilience/rank_output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "hyperion/base/faulty_files.h"

namespace hyperion::resilience {
namespace {

class RankOutputTest : public ::testing::Test {
 protected:
  RankOutputTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    out_ = ::open((folder_ / "shown.out").c_str(), O_RDWR | O_CREAT, 0600);
    err_ = ::open((folder_ / "shown.err").c_str(), O_RDWR | O_CREAT, 0600);
  }
  ~RankOutputTest() override {
    ::close(out_), ::close(err_);
    std::filesystem::remove_all(folder_);
  }
  RankOutput output(Show show, int world = 2) {
    return {base::real_files(), folder_ / "logs", world, show, out_, err_};
  }
  std::string content(const std::string& name) { return base::real_files().read(folder_ / name); }

  base::Path folder_;
  int out_ = -1, err_ = -1;
};

TEST_F(RankOutputTest, keeps_every_byte_of_every_rank_whatever_is_shown) {
  auto output = this->output(Show::none);
  output.add(0, Stream::out, "one");
  output.add(1, Stream::err, std::string_view("two\0\n", 5));
  output.add(0, Stream::out, "three\n");
  EXPECT_EQ(content("logs/rank-0.out"), "onethree\n");
  EXPECT_EQ(content("logs/rank-1.err"), std::string("two\0\n", 5));
  EXPECT_EQ(content("shown.out") + content("shown.err"), "");
}

TEST_F(RankOutputTest, names_the_files_that_are_there) {
  auto output = this->output(Show::none);
  EXPECT_EQ(output.kept_text(0), "it printed nothing");
  output.add(0, Stream::err, "one");
  EXPECT_EQ(output.kept_text(0), "what it printed is in " + (folder_ / "logs/rank-0.err").string());
  output.add(0, Stream::out, "two");
  EXPECT_EQ(output.kept_text(0), "what it printed is in " + (folder_ / "logs/rank-0.out").string() + " and " +
                                     (folder_ / "logs/rank-0.err").string());
}

TEST_F(RankOutputTest, shows_rank_0_as_it_is_and_nobody_else) {
  auto output = this->output(Show::rank0);
  output.add(0, Stream::out, "step 1");
  output.add(1, Stream::out, "mine\n");
  output.add(0, Stream::err, "warn\n");
  EXPECT_EQ(content("shown.out"), "step 1");
  EXPECT_EQ(content("shown.err"), "warn\n");
}

TEST_F(RankOutputTest, shows_whole_lines_behind_their_rank) {
  auto output = this->output(Show::all);
  output.add(0, Stream::out, "a");
  output.add(1, Stream::out, "x\ny\nz");
  output.add(0, Stream::out, "b\n\n");
  EXPECT_EQ(content("shown.out"), "[1] x\n[1] y\n[0] ab\n[0] \n");
  output.finish(1);
  EXPECT_EQ(content("shown.out"), "[1] x\n[1] y\n[0] ab\n[0] \n[1] z\n");
}

TEST_F(RankOutputTest, last_words_are_the_last_error_whole) {
  auto output = this->output(Show::none);
  output.add(0, Stream::err,
             "error: an earlier one\nnoise error: inside a line\nerror: the last\n  more of it\nhint: do\n");
  EXPECT_EQ(output.last_words(0), "error: the last\n  more of it\nhint: do\n");
}

TEST_F(RankOutputTest, knows_what_was_seen_of_rank_0) {
  auto seen = this->output(Show::rank0), hidden = this->output(Show::none);
  for (auto* output : {&seen, &hidden}) {
    output->add(0, Stream::err, "error: both\n");
    output->add(1, Stream::err, "error: both\n");
    EXPECT_EQ(output->has_shown(output->last_words(1)), output == &seen);
    output->add(1, Stream::err, "error: mine\n");
    EXPECT_FALSE(output->has_shown(output->last_words(1)));
  }
}

TEST_F(RankOutputTest, last_words_without_an_error_are_the_last_hundred_lines) {
  auto output = this->output(Show::none);
  EXPECT_EQ(output.last_words(0), "");
  std::string lines;
  for (int i = 0; i < 150; ++i) lines += "line " + std::to_string(i) + "\n";
  output.add(0, Stream::out, lines);
  const std::string words = output.last_words(0);
  EXPECT_TRUE(words.starts_with("line 50\n")) << words.substr(0, 20);
  EXPECT_TRUE(words.ends_with("line 149\n"));
  output.add(0, Stream::err, "only this");
  EXPECT_EQ(output.last_words(0), "only this");
}

TEST_F(RankOutputTest, a_flood_is_remembered_by_its_end) {
  auto output = this->output(Show::none, 1);
  const std::string block(1 << 16, 'x');
  for (int i = 0; i < 40; ++i) output.add(0, Stream::err, block);
  output.add(0, Stream::err, "\nerror: full\n");
  EXPECT_EQ(output.last_words(0), "error: full\n");
  EXPECT_EQ(base::real_files().size(folder_ / "logs/rank-0.err"), 40u * (1 << 16) + 13);
}

}  // namespace
}  // namespace hyperion::resilience
