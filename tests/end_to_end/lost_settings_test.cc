// A run whose config.resolved.toml was removed: its checkpoints know the settings.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/support_text_run.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class LostSettings : public testing::TextRun {
 protected:
  std::filesystem::path config() const { return scratch_.runs() / "r/config.resolved.toml"; }
};

TEST_F(LostSettings, while_the_run_trained_do_not_break_the_resume_that_its_stop_promises) {
  testing::Program program(scratch_, train({"--eval.every=0", "--checkpoint.every=0", "--steps", "100000"}));
  ASSERT_TRUE(program.wait_for_text("step 1/100000"));
  const std::string kept = testing::read_file(config());
  std::filesystem::remove(config());
  program.signal(SIGTERM);
  const Finished stopped = program.wait();
  ASSERT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_TRUE(says(stopped.err, "go on with: hyperion resume r")) << stopped.err;
  EXPECT_EQ(run(scratch_, {"eval", "r"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(config())) << "who only looks writes nothing";
  testing::Program again(scratch_, {"resume", "r"});
  ASSERT_TRUE(again.wait_for_text("resuming after step"));
  again.signal(SIGTERM);
  const Finished resumed = again.wait();
  EXPECT_EQ(resumed.code, 75) << resumed.err;
  EXPECT_TRUE(says(resumed.err, "config.resolved.toml was gone, and is written again")) << resumed.err;
  EXPECT_EQ(testing::read_file(config()), kept);
}

TEST_F(LostSettings, are_found_again_by_or_resume_and_by_several_ranks) {
  ASSERT_EQ(run(scratch_, train({})).code, 0);
  const std::string kept = testing::read_file(config());
  std::filesystem::remove(config());
  const Finished again = run(scratch_, train({"--or-resume"}));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(says(again.out + again.err, "run r is complete")) << again.out << again.err;
  EXPECT_EQ(testing::read_file(config()), kept);
  std::filesystem::remove(config());
  const Finished ranks = run(scratch_, {"launch", "-n", "2", "--logs", "logs", "--", "resume", "r", "--steps", "14"});
  EXPECT_EQ(ranks.code, 0) << ranks.err;
  EXPECT_TRUE(says(testing::read_file(config()), "steps = 14"));
}

TEST_F(LostSettings, that_no_checkpoint_knows_are_told_with_what_to_do) {
  ASSERT_EQ(run(scratch_, train({})).code, 0);
  std::filesystem::remove(config());
  std::filesystem::remove_all(scratch_.runs() / "r/checkpoints");
  for (const Words& words : {Words{"resume", "r"}, train({"--or-resume"})}) {
    const Finished refused = run(scratch_, words);
    EXPECT_EQ(refused.code, 2) << refused.err;
    EXPECT_TRUE(says(refused.err, "no checkpoint of run r has its settings")) << refused.err;
    EXPECT_TRUE(says(refused.err, "hyperion runs rm r")) << refused.err;
  }
  EXPECT_EQ(run(scratch_, {"runs", "rm", "r", "--yes"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs() / "r"));
}

TEST_F(LostSettings, in_a_file_that_is_empty_are_found_again_too) {
  ASSERT_EQ(run(scratch_, train({})).code, 0);
  for (const char* nothing : {"", " \n\n"}) {
    testing::write_file(config(), nothing);
    EXPECT_EQ(run(scratch_, {"eval", "r"}).code, 0);
    const Finished resumed = run(scratch_, {"resume", "r", "--steps", "14"});
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_TRUE(says(resumed.err, "config.resolved.toml was empty, and is written again")) << resumed.err;
    EXPECT_TRUE(says(testing::read_file(config()), "source = \"text\""));
  }
}

TEST_F(LostSettings, in_a_file_that_is_broken_are_told_with_how_to_find_them_again) {
  ASSERT_EQ(run(scratch_, train({})).code, 0);
  testing::write_file(config(), "x = [");
  const Finished refused = run(scratch_, {"resume", "r", "--steps", "14"});
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_TRUE(says(refused.err, "remove it: `hyperion resume r` writes it again from the checkpoint")) << refused.err;
  std::filesystem::remove(config());
  EXPECT_EQ(run(scratch_, {"resume", "r", "--steps", "14"}).code, 0);
}

TEST_F(LostSettings, of_the_model_in_a_file_that_is_empty_are_made_again) {
  ASSERT_EQ(run(scratch_, train({})).code, 0);
  const auto model = scratch_.runs() / "r/model.json";
  const std::string kept = testing::read_file(model);
  testing::write_file(model, "{");
  const Finished refused = run(scratch_, {"resume", "r", "--steps", "14"});
  EXPECT_EQ(refused.code, 1) << refused.err;
  EXPECT_TRUE(says(refused.err, "hint: remove it: `hyperion resume` writes it again")) << refused.err;
  testing::write_file(model, "");
  const Finished resumed = run(scratch_, {"resume", "r", "--steps", "14"});
  EXPECT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(testing::read_file(model), kept);
}

}  // namespace
}  // namespace hyperion
