// The signals that end a run, and what a run says of them; and a run that another process holds.
#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "tests/end_to_end/support_tree.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Program;
using testing::run;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class StopSignals : public ::testing::Test {
 protected:
  Words train(const std::string& name) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name} + testing::device_flags();
  }
  Scratch scratch_;
};

TEST_F(StopSignals, a_closed_terminal_means_checkpoint_and_leave_with_75) {
  Program program(scratch_, train("hung-up"), {{"HYPERION_FAULTS", "train.step=sleep@5"}});
  ASSERT_TRUE(program.wait_for_text("step 3/"));
  program.signal(SIGHUP);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_NE(testing::read_file(scratch_.runs() / "hung-up/run.json").find("\"stopped\""), std::string::npos);
  EXPECT_EQ(run(scratch_, {"resume", "hung-up"}).code, 0);
}

TEST_F(StopSignals, sigterm_in_a_step_without_end_is_answered_and_a_second_ends_it) {
  Program program(scratch_, train("long"), {{"HYPERION_FAULTS", "train.step=stall@3"}});
  ASSERT_TRUE(program.wait_for_text("fault point train.step stalls"));
  program.signal(SIGTERM);
  ASSERT_TRUE(program.wait_for_text("SIGTERM: stopping as soon as that is safe; another stops at once"));
  std::this_thread::sleep_for(std::chrono::milliseconds(700));
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
  EXPECT_EQ(run(scratch_, {"resume", "long"}).code, 0);
}

TEST_F(StopSignals, a_second_launch_hears_that_the_run_is_being_trained) {
  Program first(scratch_, train("shared") + Words{"--steps", "1000000", "--checkpoint.every=1", "--eval.every=0"} +
                              testing::text_data(scratch_));
  ASSERT_TRUE(first.wait_for_text("step 2/"));
  for (int round = 0; round < 2; ++round) {
    const Finished second = run(scratch_, {"launch", "-n", "2", "--logs", "logs", "--", "resume", "shared"});
    EXPECT_EQ(second.code, 2) << second.err;
    EXPECT_NE(second.err.find("error: run shared is being trained by another process"), std::string::npos)
        << second.err;
    EXPECT_EQ(second.err.find("goes on from step"), std::string::npos) << second.err;
  }
  first.signal(SIGINT);
  EXPECT_EQ(first.wait().code, 130);
}

TEST_F(StopSignals, a_config_error_under_launch_is_shown_once) {
  const Finished done = run(
      scratch_, Words{"launch", "-n", "2", "--logs", "logs", "--"} + train("never") + Words{"--train.accumulate=3"});
  EXPECT_EQ(done.code, 2);
  const std::string error = "error: train.accumulate = 3 does not divide";
  const size_t first = done.err.find(error);
  ASSERT_NE(first, std::string::npos) << done.err;
  EXPECT_EQ(done.err.find(error, first + 1), std::string::npos) << done.err;
}

TEST_F(StopSignals, a_name_with_a_space_is_refused_before_anything_is_made) {
  for (const char* name : {"a b", "a'b", "$x", "a\nb"}) {
    const Finished done = run(scratch_, train(name));
    EXPECT_EQ(done.code, 2) << name;
    EXPECT_NE(done.err.find("cannot be a run's name"), std::string::npos) << done.err;
    EXPECT_EQ(run(scratch_, train(name) + Words{"--dry-run"}).code, 2) << name;
  }
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs()));
}

}  // namespace
}  // namespace hyperion
