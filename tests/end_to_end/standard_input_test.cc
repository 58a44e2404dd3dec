// What generate and chat take from standard input is bounded: a device or a pipe may have no end.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::read_file;
using testing::run;
using testing::Scratch;

class StandardInput : public ::testing::Test {
 protected:
  StandardInput() {
    const auto recipe = testing::tiny_recipe(scratch_);
    EXPECT_EQ(
        run(scratch_, {"train", recipe, "--run", "sums", "--steps", "2", "--eval.every=0", "--device", "cpu"}).code, 0);
    EXPECT_EQ(run(scratch_, {"export", "sums", "--to", "model"}).code, 0);
    testing::write_file(scratch_.path() / "model/chat_template.jinja", "{{ messages[-1].content }}:");
  }
  // Its exit code; what it says on either stream lands in `said_`.
  int from(const std::string& input, const std::string& words) {
    const std::string said = (scratch_.path() / "said").string();
    const std::string line = "cd " + scratch_.path().string() + " && HYPERION_RUNS=" + scratch_.runs().string() +
                             " OMP_NUM_THREADS=1 timeout 60 " + testing::program() + " " + words + " < " + input +
                             " > " + said + " 2>&1";
    const int status = std::system(line.c_str());
    said_ = read_file(said);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  Scratch scratch_;
  std::string said_;
};

TEST_F(StandardInput, without_an_end_is_refused) {
  EXPECT_EQ(from("/dev/zero", "generate sums --device cpu --prompt -"), 2);
  EXPECT_NE(said_.find("the prompt from standard input is longer than 16.0 MiB"), std::string::npos) << said_;
  EXPECT_EQ(from("/dev/zero", "chat model --device cpu"), 2);
  EXPECT_NE(said_.find("a line from standard input is longer than 16.0 MiB"), std::string::npos) << said_;
}

TEST_F(StandardInput, is_taken_to_its_end_and_line_by_line) {
  testing::write_file(scratch_.path() / "in", "1+1:\n\n2+2:");
  EXPECT_EQ(from("in", "generate sums --device cpu --prompt - --tokens 1"), 0);
  EXPECT_EQ(said_.find("1+1:\n\n2+2:"), 0u) << said_;
  EXPECT_EQ(from("in", "chat model --device cpu --tokens 1"), 0);
  EXPECT_GE(std::count(said_.begin(), said_.end(), '\n'), 2) << said_;
}

}  // namespace
}  // namespace hyperion
