// What strangers found by trying the program anew.
#include <gtest/gtest.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::Scratch;
using Words = std::vector<std::string>;

TEST(TriedAgain, a_flag_with_an_empty_value_does_not_take_the_next_word) {
  Scratch scratch;
  const Finished done = run(scratch, {"train", testing::tiny_recipe(scratch), "--run=", "--dry-run"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("error: --run= has no value"), std::string::npos) << done.err;
  EXPECT_EQ(run(scratch, {"train", testing::tiny_recipe(scratch), "--parallel.zeropp=", "--dry-run"}).code, 0);
}

TEST(TriedAgain, a_warm_up_longer_than_the_schedule_that_is_kept_is_refused_before_anything_changes) {
  Scratch scratch;
  const Words train{"train", testing::tiny_recipe(scratch), "--run", "short", "--device", "cpu"};
  auto first = train, second = train;
  first.insert(first.end(), {"--steps", "4", "--optim.warmup=2"});
  ASSERT_EQ(run(scratch, first).code, 0);
  second.insert(second.end(), {"--steps", "40", "--optim.warmup=20", "--or-resume"});
  const Finished refused = run(scratch, second);
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("longer than the schedule of run short, which ends at step 4"), std::string::npos)
      << refused.err;
  EXPECT_EQ(run(scratch, {"eval", "short", "--device", "cpu"}).code, 0);
  second.push_back("--optim.decay_steps=40");
  EXPECT_EQ(run(scratch, second).code, 0);
}

}  // namespace
}  // namespace hyperion
