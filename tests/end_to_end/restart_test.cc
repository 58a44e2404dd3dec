// `hyperion launch --restarts`: a job that failed comes back by itself, as often as it may and as long as it gets
// further, and can be stopped at any moment.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "tests/end_to_end/support_processes.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Program;
using testing::run;
using testing::says;
using testing::Scratch;
using testing::operator+;
using Words = std::vector<std::string>;

class Restart : public ::testing::Test {
 protected:
  Words launch(const Words& flags, const Words& command) const {
    return Words{"launch", "-n", "2", "--logs", "logs"} + flags + Words{"--"} + command;
  }
  Words train(const Words& flags = {}) const {
    return Words{"train", testing::tiny_recipe(scratch_), "--device", "cpu", "--train.deterministic=true"} + flags;
  }
  std::map<std::string, std::string> with(const std::string& faults) const {
    return {{"OMP_NUM_THREADS", "1"}, {"HYPERION_FAULTS", faults}, {"HYPERION_TEST_MARK", scratch_.path().string()}};
  }
  std::string mark() const { return "HYPERION_TEST_MARK=" + scratch_.path().string(); }
  Scratch scratch_;
};

TEST_F(Restart, goes_on_from_the_newest_checkpoint_and_says_so) {
  const Finished whole = run(scratch_, launch({}, train({"--run", "whole"})), with(""));
  ASSERT_EQ(whole.code, 0) << whole.err;
  // Every rank is killed at each start's 12th step: 12 of the run, then 22.
  const Finished done = run(scratch_, launch({"--restarts", "5", "--back-off", "0.1"}, train({"--run", "mine"})),
                            with("train.step=kill@12"));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(says(done.err, "restart 1 of 5 in 0.1 s, from the checkpoint of step 10")) << done.err;
  EXPECT_TRUE(says(done.err, "restart 2 of 5 in 0.1 s, from the checkpoint of step 20")) << done.err;
  EXPECT_TRUE(says(done.err, "restart 2 goes on from step 20, after rank ")) << "in the log of the run: " << done.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "mine"), testing::losses(scratch_.runs() / "whole"));
  EXPECT_TRUE(std::filesystem::exists(scratch_.path() / "logs/restart-2/rank-1.err"));
  const std::string shown = run(scratch_, {"runs", "show", "mine"}).out;
  EXPECT_TRUE(says(shown, "restarts         2; the last from step 20, after rank ")) << shown;
  EXPECT_TRUE(says(shown, "signal 9 (Killed)")) << shown;
}

TEST_F(Restart, of_a_run_without_a_name_goes_on_with_it) {
  const Finished done =
      run(scratch_, launch({"--restarts", "1", "--back-off", "0"}, train()), with("train.step=kill@15"));
  EXPECT_EQ(done.code, 0) << done.err;
  size_t runs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.runs()))
    runs += std::filesystem::exists(entry.path() / "run.json") ? 1 : 0;
  EXPECT_EQ(runs, 1u);
}

TEST_F(Restart, ends_where_the_job_fails_at_the_same_step_again_and_again) {
  const Finished done = run(scratch_, launch({"--restarts", "50", "--back-off", "0"}, train({"--run", "stuck"})),
                            with("train.step=throw@1"));
  EXPECT_EQ(done.code, 1);
  EXPECT_TRUE(says(done.err, "it failed 3 times in a row with exit code 1 and got no further than step 0: given up"))
      << done.err;
  EXPECT_TRUE(says(done.err, "restart 2 of 50")) << done.err;
  EXPECT_FALSE(says(done.err, "restart 3 of 50")) << done.err;
}

TEST_F(Restart, is_for_any_program_and_ends_with_the_budget) {
  const Words counting{"sh", "-c", "echo start ${TORCHELASTIC_RESTART_COUNT:-0} >> starts.$RANK; exit 7"};
  const Finished done = run(scratch_, launch({"--restarts", "2", "--back-off", "0"}, counting));
  EXPECT_EQ(done.code, 7) << done.err;
  EXPECT_TRUE(says(done.err, "it was started again 2 times, as often as --restarts allows: given up")) << done.err;
  const std::string starts =
      testing::read_file(scratch_.path() / "starts.0") + testing::read_file(scratch_.path() / "starts.1");
  for (const char* start : {"start 0\n", "start 1\n", "start 2\n"}) EXPECT_TRUE(says(starts, start)) << starts;
}

TEST_F(Restart, does_not_repeat_what_has_to_be_changed_first) {
  const Finished done =
      run(scratch_, launch({"--restarts", "5"}, train({"--run", "never", "--train.accumulate=3"})), with(""));
  EXPECT_EQ(done.code, 2);
  EXPECT_TRUE(says(done.err, "train.accumulate = 3 does not divide")) << done.err;
  EXPECT_FALSE(says(done.err, "restart 1")) << done.err;
}

TEST_F(Restart, is_stopped_at_once_while_it_waits) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Program job(scratch_, launch({"--restarts", "5", "--back-off", "1000"}, train({"--run", "waits"})),
                with("train.step=throw@2"));
    ASSERT_TRUE(job.wait_for_text("restart 1 of 5 in 1e+03 s")) << job.said();
    job.signal(signal);
    ASSERT_TRUE(job.ends_within(20));
    const Finished done = job.wait();
    EXPECT_EQ(done.code, signal == SIGINT ? 130 : 75) << done.err;
    EXPECT_TRUE(testing::no_process_with(mark()));
  }
}

TEST_F(Restart, is_not_made_of_a_job_that_was_asked_to_stop) {
  Program job(scratch_, launch({"--restarts", "5"}, train({"--run", "asked", "--steps", "1000000"})), with(""));
  ASSERT_TRUE(job.wait_for_text("step 2/"));
  job.signal(SIGTERM);
  const Finished done = job.wait();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_FALSE(says(done.err, "restart 1")) << done.err;
}

TEST_F(Restart, a_killed_launcher_leaves_nothing_and_the_same_command_goes_on) {
  const Words same = launch({"--restarts", "5"}, train({"--run", "again", "--checkpoint.every=1"}));
  {
    Program job(scratch_, same, with("train.step=sleep@8/1"));
    ASSERT_TRUE(job.wait_for_text("step 10/"));
    job.signal(SIGKILL);
    job.wait();
    EXPECT_TRUE(testing::no_process_with(mark()));
  }
  const Finished done = run(scratch_, same, with(""));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(testing::losses(scratch_.runs() / "again").size(), 24u);
  EXPECT_FALSE(says(done.err, "step 1/")) << "it went on from a checkpoint: " << done.err;
}

// One launcher a machine: whichever is killed, the others notice, end their ranks and wait until it is started again.
TEST_F(Restart, of_several_launchers_waits_for_one_that_was_killed) {
  const std::string master = "127.0.0.1:" + std::to_string(20000 + ::getpid() % 10000);
  auto environment = with("train.step=sleep@1/1");
  environment["HYPERION_JOB_SECRET"] = "a secret of a test, long enough";
  const auto words = [&](int node) {
    return Words{"launch",
                 "-n",
                 "2",
                 "--node-count",
                 "2",
                 "--node-rank",
                 std::to_string(node),
                 "--master",
                 master,
                 "--logs",
                 "logs-" + std::to_string(node),
                 "--restarts",
                 "5",
                 "--back-off",
                 "0.1",
                 "--"} +
           train({"--run", "shared", "--checkpoint.every=2"});
  };
  std::unique_ptr<Program> launchers[2];
  for (int node = 0; node < 2; ++node) launchers[node] = std::make_unique<Program>(scratch_, words(node), environment);
  for (const int killed : {1, 0}) {
    SCOPED_TRACE(killed);
    const int left = 1 - killed;
    const std::string step = killed == 1 ? "step 4/" : "step 8/";
    ASSERT_TRUE(launchers[0]->wait_for_text(step)) << launchers[0]->said() << launchers[1]->said();
    launchers[killed]->signal(SIGKILL);
    launchers[killed]->wait();
    ASSERT_TRUE(launchers[left]->wait_for_text(killed == 1 ? "launch: 1 of 2 launchers are here; waiting"
                                                           : "launch: waiting for the launcher of the first machine"))
        << launchers[left]->said();
    launchers[killed] = std::make_unique<Program>(scratch_, words(killed), environment);
  }
  for (auto& launcher : launchers) {
    const Finished done = launcher->wait();
    EXPECT_EQ(done.code, 0) << done.err;
  }
  EXPECT_EQ(testing::losses(scratch_.runs() / "shared").size(), 24u);
}

}  // namespace
}  // namespace hyperion
