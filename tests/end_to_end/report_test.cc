// The page of a run: there while it runs and at any end, and made anew on request.
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class Report : public ::testing::Test {
 protected:
  Words train(const std::string& name, const Words& more = {}) {
    return Words{"train", testing::tiny_recipe(scratch_), "--run", name} + testing::device_flags() + more;
  }
  std::filesystem::path file(const std::string& name) { return scratch_.runs() / name / "report.html"; }
  std::string page(const std::string& name) { return testing::read_file(file(name)); }
  Scratch scratch_;
};

TEST_F(Report, is_there_at_any_end) {
  EXPECT_EQ(run(scratch_, train("stopped"), {{"HYPERION_FAULTS", "train.step=interrupt@9"}}).code, 130);
  EXPECT_TRUE(says(page("stopped"), "It was stopped after step 9 of 24; hyperion resume stopped goes on with it."));
  EXPECT_EQ(run(scratch_, train("wild", {"--optim.lr=100", "--optim.clip=0", "--optim.rule=sgd", "--optim.warmup=0",
                                         "--optim.schedule=constant"}))
                .code,
            1);
  EXPECT_TRUE(says(page("wild"), "It failed after step ")) << page("wild").substr(0, 200);
  EXPECT_EQ(run(scratch_, {"resume", "stopped"}).code, 0);
  EXPECT_FALSE(says(page("stopped"), "class=\"state\">"));
}

TEST_F(Report, of_a_running_run_says_so_and_of_a_killed_one_is_made_anew) {
  // On a GPU a step's figures are read one step later.
  const Words killed{"train", testing::tiny_recipe(scratch_), "--run", "killed", "--device", "cpu"};
  EXPECT_EQ(run(scratch_, killed, {{"HYPERION_FAULTS", "train.step=kill@9"}}).code, 128 + SIGKILL);
  EXPECT_TRUE(says(page("killed"), "It is being trained: step 6 of 24 on 20"));
  std::filesystem::remove(file("killed"));
  const Finished made = run(scratch_, {"report", "killed"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, "report: " + file("killed").string() + "\n");
  EXPECT_TRUE(says(page("killed"), "It ended without a word after step 8 of 24: killed, or its machine stopped"));

  testing::Program running(scratch_, train("running", {"--steps", "100000", "--eval.every=0"}));
  ASSERT_TRUE(running.wait_for_text("step 3/"));
  ASSERT_EQ(run(scratch_, {"report", "running"}).code, 0);
  EXPECT_TRUE(says(page("running"), "It is being trained: step "));
}

TEST_F(Report, made_anew_is_the_page_that_was_written) {
  ASSERT_EQ(run(scratch_, train("whole")).code, 0);
  const std::string before = page("whole");
  EXPECT_TRUE(says(before, "Questions and answers"));
  std::filesystem::remove(file("whole"));
  ASSERT_EQ(run(scratch_, {"report", "whole"}).code, 0);
  const std::string after = page("whole");
  const std::string settings = "<h2>Settings</h2>";  // they now come from the run's own file
  EXPECT_EQ(after.substr(0, after.find(settings)), before.substr(0, before.find(settings)));
  const Finished none = run(scratch_, {"report", "whol"});
  EXPECT_EQ(none.code, 2);
  EXPECT_TRUE(says(none.err, "did you mean whole?")) << none.err;
}

TEST_F(Report, folds_defaults_away_behind_machine_and_checkpoints) {
  ASSERT_EQ(run(scratch_, train("a", {"--steps", "6"})).code, 0);
  const std::string html = page("a");
  const size_t machine = html.find("<h2>Environment</h2>"), checkpoints = html.find("<h2>Checkpoints</h2>"),
               settings = html.find("<h2>Settings</h2>"), folded = html.find("<details>");
  ASSERT_NE(folded, html.npos);
  EXPECT_TRUE(machine < checkpoints && checkpoints < settings && settings < folded);
  EXPECT_TRUE(says(html.substr(settings, folded - settings), "<td>dropout</td>"));
  EXPECT_FALSE(says(html.substr(settings, folded - settings), "<td>beta2</td>"));
  EXPECT_TRUE(says(html.substr(folded), "<td>beta2</td>"));
}

}  // namespace
}  // namespace hyperion
