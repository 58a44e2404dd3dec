// Runs whose files go missing: checkpoints that were removed, and a folder that goes while the run is trained.
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

class LostRun : public testing::TextRun {};

TEST_F(LostRun, without_its_checkpoints_is_not_begun_anew) {
  ASSERT_EQ(run(scratch_, train({})).code, 0);
  const auto place = scratch_.runs() / "r";
  const std::string metrics = testing::read_file(place / "metrics.jsonl");
  std::filesystem::remove_all(place / "checkpoints");
  const Finished again = run(scratch_, train({"--or-resume"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_TRUE(says(again.out + again.err, "its checkpoints are gone; nothing to do")) << again.out;
  const Finished longer = run(scratch_, {"resume", "r", "--steps", "20"});
  EXPECT_EQ(longer.code, 2);
  EXPECT_TRUE(says(longer.err, "checkpoints are not in")) << longer.err;
  EXPECT_EQ(testing::read_file(place / "metrics.jsonl"), metrics);
}

TEST_F(LostRun, whose_folder_goes_while_it_trains_promises_no_resume) {
  testing::Program program(scratch_, train({"--eval.every=0", "--checkpoint.every=0", "--steps", "100000"}));
  ASSERT_TRUE(program.wait_for_text("step 1/100000"));
  std::filesystem::rename(scratch_.runs() / "r", scratch_.path() / "away");
  program.signal(SIGTERM);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_TRUE(says(done.err, "was moved or removed while it was trained")) << done.err;
  EXPECT_FALSE(std::filesystem::exists(scratch_.runs() / "r"));
}

}  // namespace
}  // namespace hyperion
