// Ctrl-C in the commands that have nothing to save: 130 at once, no error, nothing left behind. Training's is in
// resume_test.cc.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

TEST(Interrupt, ctrl_c_leaves_every_other_command_with_130_and_no_trace) {
  Scratch scratch;
  const Finished made = run(scratch, Words{"train", testing::tiny_recipe(scratch), "--run", "good", "--steps", "4"} +
                                         testing::device_flags());
  ASSERT_EQ(made.code, 0) << made.err;
  const auto before = testing::tree(scratch.runs());
  const std::pair<Words, std::string> cases[] = {
      {{"eval", "good"}, "train.evaluate"},
      {{"eval", "good"}, "train.answer"},
      {{"generate", "good", "--prompt", "1+1:"}, "serve.token"},
      {{"bench", "hardware", "--quick", "--sizes", "64", "--elements", "1000"}, "bench.case"},
      {{"doctor"}, "files.write"},
  };
  for (const auto& [command, point] : cases) {
    SCOPED_TRACE(command[0] + " at " + point);
    const Finished stopped = run(scratch, command, {{"HYPERION_FAULTS", point + "=interrupt"}});
    EXPECT_EQ(stopped.code, 130) << stopped.err;
    EXPECT_EQ(testing::error_line(stopped), "");
    EXPECT_NE(stopped.err.find("stopped while"), std::string::npos) << stopped.err;
    EXPECT_TRUE(testing::tree(scratch.runs()) == before);
  }
}

}  // namespace
}  // namespace hyperion
