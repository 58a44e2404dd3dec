// A complete run that is told to do something otherwise.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::says;
using testing::operator+;
using Words = std::vector<std::string>;

TEST(CompleteRun, says_which_settings_have_no_effect_any_more) {
  testing::Scratch scratch;
  testing::write_file(scratch.path() / "text", std::string(3000, 'a') + std::string(1000, 'b'));
  testing::write_file(scratch.path() / "r.toml", testing::kTextRecipe);
  const Words train = Words{"train", (scratch.path() / "r.toml").string(), "--run", "r",
                            "--data.path=" + (scratch.path() / "text").string()} +
                      testing::device_flags();
  ASSERT_EQ(run(scratch, train).code, 0);
  const std::string vain = "optim.lr = 0.5 has no effect: run r is complete, and was trained with 0.01";
  for (const Words& words : {Words{"resume", "r", "--optim.lr=0.5"}, train + Words{"--or-resume", "--optim.lr=0.5"}}) {
    const Finished done = run(scratch, words);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_TRUE(says(done.err, vain)) << done.err;
    EXPECT_TRUE(says(done.out + done.err, "train it further with --steps N")) << done.out << done.err;
  }
  const Finished same = run(scratch, train + Words{"--or-resume"});
  EXPECT_FALSE(says(same.err, "no effect")) << same.err;
}

}  // namespace
}  // namespace hyperion
