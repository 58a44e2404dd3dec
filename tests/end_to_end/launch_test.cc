// `hyperion launch`: real processes, as a user starts them.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "hyperion/host/ports.h"
#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Program;
using testing::read_file;
using testing::run;
using testing::Scratch;
using Words = std::vector<std::string>;
using Clock = std::chrono::steady_clock;

Words shell(int ranks, const std::string& script, Words flags = {}) {
  Words words{"launch", "-n", std::to_string(ranks), "--logs", "logs"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--", "sh", "-c", script});
  return words;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool alive(int pid) { return ::kill(pid, 0) == 0; }

// Process numbers that ranks wrote into files "pid.*" of the scratch folder.
std::vector<int> written_pids(const Scratch& scratch) {
  std::vector<int> pids;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    if (entry.path().filename().string().starts_with("pid."))
      if (const std::string text = read_file(entry.path()); !text.empty()) pids.push_back(std::stoi(text));
  return pids;
}

bool all_gone(const std::vector<int>& pids) {
  for (int i = 0; i < 300; ++i) {
    bool any = false;
    for (const int pid : pids) any |= alive(pid);
    if (!any) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(Launch, ranks_are_told_who_they_are_and_log_apart) {
  Scratch scratch;
  const Finished done =
      run(scratch, shell(3, "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR; echo err$RANK >&2"));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, "0/3 0/3 127.0.0.1\n");
  EXPECT_EQ(done.err, "err0\n");
  EXPECT_EQ(read_file(scratch.path() / "logs/rank-2.out"), "2/3 2/3 127.0.0.1\n");
  EXPECT_EQ(read_file(scratch.path() / "logs/rank-1.err"), "err1\n");
}

TEST(Launch, threads_are_shared_out_unless_the_user_chose) {
  Scratch scratch;
  EXPECT_EQ(run(scratch, shell(64, "echo $OMP_NUM_THREADS"), {{"OMP_NUM_THREADS", "7"}}).out, "7\n");
  const Words nested{"launch", "-n", "1",  "--", "env", "-u", "OMP_NUM_THREADS",      HYPERION_PROGRAM,
                     "launch", "-n", "64", "--", "sh",  "-c", "echo $OMP_NUM_THREADS"};
  const unsigned share = std::max(1u, std::thread::hardware_concurrency() / 64);
  EXPECT_EQ(run(scratch, nested).out, std::to_string(share) + "\n");
}

TEST(Launch, every_line_stands_behind_its_rank_where_all_are_shown) {
  Scratch scratch;
  const Finished done = run(scratch, shell(2, "echo a; echo b; printf c", {"--show", "all"}));
  EXPECT_EQ(done.code, 0);
  for (const char* line : {"[0] a\n", "[1] b\n", "[1] c\n"}) EXPECT_NE(done.out.find(line), std::string::npos) << line;
}

TEST(Launch, a_command_of_ours_may_follow) {
  Scratch scratch;
  const Finished alone = run(scratch, {"presets"});
  const Finished done = run(scratch, {"launch", "-n", "2", "--logs", "logs", "--", "presets"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, alone.out);
  EXPECT_EQ(read_file(scratch.path() / "logs/rank-1.out"), alone.out);
}

TEST(Launch, the_first_failure_ends_all_and_is_told_last_with_its_code) {
  Scratch scratch;
  const auto start = Clock::now();
  const Finished done =
      run(scratch, shell(3,
                         "echo $$ > pid.$RANK; trap '' TERM; if [ $RANK = 1 ]; then sleep 0.3; printf "
                         "'error: it broke\\nhint: mend it\\n' >&2; exit 7; fi; sleep 60"));
  EXPECT_EQ(done.code, 7);
  EXPECT_LT(seconds_since(start), 0.3 + 5);
  EXPECT_NE(done.err.find("rank 1 of 3"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("ranks 0 and 2 ended after it"), std::string::npos) << done.err;
  EXPECT_TRUE(done.err.ends_with("error: it broke\nhint: mend it\n")) << done.err;
  EXPECT_TRUE(all_gone(written_pids(scratch)));
}

TEST(Launch, a_killed_rank_is_named_with_its_signal) {
  Scratch scratch;
  const Finished done = run(scratch, shell(2, "if [ $RANK = 1 ]; then kill -9 $$; fi; sleep 60"));
  EXPECT_EQ(done.code, 128 + SIGKILL);
  EXPECT_NE(done.err.find("rank 1 of 2"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("signal 9 (Killed)"), std::string::npos) << done.err;
}

TEST(Launch, ctrl_c_reaches_every_rank_once_and_waits_for_what_they_save) {
  Scratch scratch;
  Program program(scratch, shell(3,
                                 "trap 'sleep 0.5; echo saved >> saved.$RANK; exit 130' INT; echo ready; while :; do "
                                 "sleep 0.05; done",
                                 {"--show", "all"}));
  for (const char* ready : {"[0] ready", "[1] ready", "[2] ready"}) ASSERT_TRUE(program.wait_for_text(ready));
  program.signal(SIGINT);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 130) << done.err;
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(read_file(scratch.path() / ("saved." + std::to_string(rank))), "saved\n") << rank;
}

TEST(Launch, a_training_run_that_is_preempted_writes_its_checkpoint_and_says_75) {
  Scratch scratch;
  Program program(scratch, {"launch", "-n", "1", "--", "train", testing::tiny_recipe(scratch), "--run", "mine",
                            "--steps", "100000", "--device", "cpu"});
  ASSERT_TRUE(program.wait_for_text("step 3/"));
  program.signal(SIGTERM);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 75) << done.err;
  EXPECT_FALSE(std::filesystem::is_empty(scratch.runs() / "mine" / "checkpoints"));
}

TEST(Launch, a_second_ctrl_c_ends_ranks_that_will_not_stop) {
  Scratch scratch;
  Program program(scratch, shell(2, "trap '' INT TERM; echo $$ > pid.$RANK; echo ready; sleep 60", {"--show", "all"}));
  for (const char* ready : {"[0] ready", "[1] ready"}) ASSERT_TRUE(program.wait_for_text(ready));
  program.signal(SIGINT);
  ASSERT_TRUE(program.wait_for_text("passed on"));
  const auto start = Clock::now();
  program.signal(SIGINT);
  EXPECT_NE(program.wait().code, 0);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_TRUE(all_gone(written_pids(scratch)));
}

TEST(Launch, ranks_and_what_they_started_die_with_a_killed_launcher) {
  Scratch scratch;
  Program program(scratch,
                  shell(2, "sh -c 'echo $$ > pid.$RANK.child; exec sleep 60' & echo $$ > pid.$RANK; echo ready; wait",
                        {"--show", "all"}));
  for (const char* ready : {"[0] ready", "[1] ready"}) ASSERT_TRUE(program.wait_for_text(ready));
  for (int i = 0; i < 500 && written_pids(scratch).size() < 4; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto pids = written_pids(scratch);
  ASSERT_EQ(pids.size(), 4u);
  program.signal(SIGKILL);
  program.wait();
  EXPECT_TRUE(all_gone(pids));
}

// Out of the rank's process group, and a nested launcher's at that.
const std::string kSession = "setsid sh -c 'echo $$ > pid.$RANK; echo ready; exec sleep 60' & ";

TEST(Launch, a_session_that_a_rank_began_ends_with_the_job) {
  Scratch scratch;
  const Finished done = run(scratch, shell(2, kSession + "while [ ! -s pid.$RANK ]; do sleep 0.05; done"));
  EXPECT_EQ(done.code, 0) << done.err;
  const auto pids = written_pids(scratch);
  ASSERT_EQ(pids.size(), 2u);
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launch, a_session_that_a_rank_began_ends_with_a_killed_launcher) {
  Scratch scratch;
  const Words inner{testing::program(),   "launch", "-n", "1", "--logs", "inner", "--", "sh", "-c",
                    kSession + "sleep 60"};
  Words words{"launch", "-n", "1", "--logs", "logs", "--"};
  words.insert(words.end(), inner.begin(), inner.end());
  Program program(scratch, words);
  ASSERT_TRUE(program.wait_for_text("ready"));
  const auto pids = written_pids(scratch);
  ASSERT_EQ(pids.size(), 1u);
  program.signal(SIGKILL);
  program.wait();
  EXPECT_TRUE(all_gone(pids));
}

TEST(Launch, what_a_rank_started_ends_with_the_rank) {
  Scratch scratch;
  const Finished done = run(scratch, shell(1, "sleep 60 & echo $! > pid.child"));
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(all_gone(written_pids(scratch)));
}

TEST(Launch, a_frozen_rank_is_named_and_ends_the_job) {
  Scratch scratch;
  const auto start = Clock::now();
  const Finished done =
      run(scratch, shell(3, "if [ $RANK = 2 ]; then kill -STOP $$; fi; sleep 60", {"--frozen-seconds", "2"}));
  EXPECT_EQ(done.code, 1);
  EXPECT_LT(seconds_since(start), 12);
  EXPECT_NE(done.err.find("is frozen: stopped by a signal"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("rank 2 of 3"), std::string::npos) << done.err;
}

TEST(Launch, a_rank_that_is_thawed_in_time_goes_on) {
  Scratch scratch;
  Program program(scratch, shell(2, "echo $$ > pid.$RANK; if [ $RANK = 1 ]; then kill -STOP $$; fi; echo done"));
  ASSERT_TRUE(program.wait_for_text("rank 1 (process"));
  ::kill(std::stoi(read_file(scratch.path() / "pid.1")), SIGCONT);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 0) << done.err;
}

std::string state_of(int pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const size_t name_end = stat.rfind(')');
  return name_end == std::string::npos ? "gone" : stat.substr(name_end + 2, 1);
}

bool comes_to_be(const std::function<bool()>& condition) {
  for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return condition();
}

TEST(Launch, ctrl_z_stops_the_whole_job_until_it_goes_on) {
  Scratch scratch;
  Program program(scratch,
                  shell(2, "echo $$ > pid.$RANK; echo ready; while [ ! -e go ]; do sleep 0.05; done; echo done",
                        {"--show", "all", "--frozen-seconds", "1"}));
  for (const char* ready : {"[0] ready", "[1] ready"}) ASSERT_TRUE(program.wait_for_text(ready));
  const auto pids = written_pids(scratch);
  program.signal(SIGTSTP);
  // D: a shell whose child was stopped before it became `sleep`.
  const auto stopped = [](int pid) { return state_of(pid) == "T" || state_of(pid) == "D"; };
  for (const int pid : pids) EXPECT_TRUE(comes_to_be([&] { return stopped(pid); })) << state_of(pid);
  testing::write_file(scratch.path() / "go", "");
  std::this_thread::sleep_for(std::chrono::seconds(2));
  program.signal(SIGCONT);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("[1] done"), std::string::npos);
}

const std::string kMeet = std::string("exec ") + HYPERION_PROGRAM + " rendezvous ";

TEST(Launch, ranks_meet_and_add_over_the_launchers_store) {
  Scratch scratch;
  const Finished done = run(scratch, {"launch", "-n", "4", "--show", "all", "--", "rendezvous"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("hyperion launch, rank 0 of 4, local rank 0; 4 ranks met"), std::string::npos) << done.out;
  for (const char* met : {"[1] hyperion launch, rank 1 of 4", "[2] hyper", "[3] hyper"})
    EXPECT_NE(done.out.find(met), std::string::npos) << done.out;
}

TEST(Launch, the_jobs_secret_stands_on_no_command_line) {
  Scratch scratch;
  const Finished done = run(
      scratch, shell(1, "printf %s \"$HYPERION_JOB_SECRET\" > secret; cat /proc/[0-9]*/cmdline | grep -caFf secret"));
  EXPECT_EQ(read_file(scratch.path() / "secret").size(), 64u);
  EXPECT_EQ(done.out, "0\n");
}

TEST(Launch, a_rank_with_another_secret_cannot_join) {
  Scratch scratch;
  const Finished done =
      run(scratch, shell(2, "if [ $RANK = 1 ]; then HYPERION_JOB_SECRET=this-is-not-the-secret; fi; " + kMeet));
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(done.err.find("rank 1 of 2"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("its secret is another"), std::string::npos) << done.err;
}

TEST(Launch, a_rank_that_does_not_come_is_named) {
  Scratch scratch;
  const Finished done = run(scratch, shell(3, "if [ $RANK = 1 ]; then sleep 60; fi; " + kMeet + "--timeout 1"));
  EXPECT_EQ(done.code, 1) << done.err;
  EXPECT_NE(done.err.find("these ranks have not come: 1"), std::string::npos) << done.err;
}

TEST(Launch, a_rank_that_is_killed_while_others_wait_for_it_ends_the_job) {
  Scratch scratch;
  const auto start = Clock::now();
  const Finished done =
      run(scratch, shell(3, "if [ $RANK = 2 ]; then export HYPERION_FAULTS=comm.meet=kill; fi; " + kMeet));
  EXPECT_EQ(done.code, 128 + SIGKILL) << done.err;
  EXPECT_LT(seconds_since(start), 20);
  EXPECT_NE(done.err.find("rank 2 of 3"), std::string::npos) << done.err;
}

TEST(Launch, a_rank_without_a_heartbeat_is_named_though_its_first_process_runs) {
  Scratch scratch;
  Program program(scratch, shell(2, std::string(HYPERION_PROGRAM) + " rendezvous --hold 60 & echo $! > pid.$RANK; wait",
                                 {"--frozen-seconds", "1"}));
  ASSERT_TRUE(program.wait_for_text("2 ranks met"));
  ::kill(std::stoi(read_file(scratch.path() / "pid.1")), SIGSTOP);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.err.find("sends no heartbeat"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("rank 1 of 2"), std::string::npos) << done.err;
  EXPECT_TRUE(all_gone(written_pids(scratch)));
}

TEST(Launch, where_rank_0_cannot_make_the_run_its_words_come_last_and_whole) {
  Scratch scratch;
  const Words train{"launch",   "-n",   "3",     "--logs", "logs",
                    "--show",   "none", "--",    "train",  testing::tiny_recipe(scratch),
                    "--device", "cpu",  "--run", "mine",   "--train.batch=12"};
  std::filesystem::create_directories(scratch.runs() / "mine");
  testing::write_file(scratch.runs() / "mine/config.resolved.toml", "");
  for (int again = 0; again < 3; ++again) {  // whoever ends first must not be a matter of luck
    const Finished done = run(scratch, train);
    EXPECT_EQ(done.code, 2);
    EXPECT_NE(done.err.find("rank 0 of 3"), std::string::npos) << done.err;
    EXPECT_NE(done.err.find("ranks 1 and 2 ended after it"), std::string::npos) << done.err;
    EXPECT_TRUE(done.err.ends_with("error: the run folder " + (scratch.runs() / "mine").string() +
                                   " exists already\nhint: go on with it: hyperion resume mine, or add --or-resume; or "
                                   "choose another name: --run NAME\n"))
        << done.err;
  }
}

TEST(Launch, ranks_and_launchers_that_wait_for_others_hear_a_stop) {
  Scratch scratch;
  const std::string port = std::to_string(host::find_free_port());
  const Words alone{
      "train", testing::tiny_recipe(scratch), "--device", "cpu", "--world-size", "2", "--master", "127.0.0.1:" + port};
  const Words waits_for_rank_1 = testing::operator+(alone, {"--rank", "0"});
  const Words waits_for_rank_0 = testing::operator+(alone, {"--rank", "1", "--parallel.timeout=59"});
  const Words waits_for_launcher{"launch",      "-n", "2",         "--node-count",      "2",
                                 "--node-rank", "1",  "--master",  "127.0.0.1:" + port, "--logs",
                                 "logs",        "--", "rendezvous"};
  for (const Words& words : {waits_for_rank_1, waits_for_rank_0, waits_for_launcher}) {
    for (const int signal : {SIGTERM, SIGINT}) {
      Program program(scratch, words);
      std::this_thread::sleep_for(std::chrono::seconds(3));  // there is nothing to see of it
      program.signal(signal);
      EXPECT_TRUE(program.ends_within(5));
      const Finished done = program.wait();
      const bool preempted = signal == SIGTERM && words.front() == "train";
      EXPECT_EQ(done.code, preempted ? 75 : 128 + signal) << done.err;
      EXPECT_NE(done.err.find("stopped while "), std::string::npos) << done.err;
    }
  }
}

TEST(Launch, a_slip_in_the_command_is_met_with_what_was_meant) {
  Scratch scratch;
  const Finished slip = run(scratch, {"launch", "-n", "2", "--", "tarin", "x.toml"});
  EXPECT_EQ(slip.code, 2);
  EXPECT_NE(slip.err.find("hint: did you mean train?"), std::string::npos) << slip.err;
  const Finished bare = run(scratch, {"launch", "-n", "2", "train", "x.toml"});
  EXPECT_EQ(bare.code, 2);
  EXPECT_NE(bare.err.find("unexpected argument train\nhint: the command to start comes after --"), std::string::npos)
      << bare.err;
}

TEST(Launch, an_export_is_the_work_of_one_process) {
  Scratch scratch;
  const Finished done = run(scratch, {"launch", "-n", "2", "--", "export", "mine", "--to", "folder"});
  EXPECT_EQ(done.code, 2);
  EXPECT_NE(done.err.find("`hyperion export` is one process"), std::string::npos) << done.err;
  EXPECT_NE(done.err.find("hint: run it without launch"), std::string::npos) << done.err;
}

TEST(Launch, what_cannot_be_started_is_a_usage_error) {
  Scratch scratch;
  for (const Words& words : {Words{"launch", "-n", "2", "--", "no-such-program"}, Words{"launch", "-n", "2"},
                             Words{"launch", "--", "presets"}, Words{"launch", "-n", "0", "--", "presets"},
                             Words{"launch", "-n", "2", "--emit", "slurm", "--nodes", "a:2", "--", "presets"},
                             Words{"launch", "-n", "2", "--name", "mine", "--", "presets"}}) {
    const Finished done = run(scratch, words);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_NE(done.err.find("hint:"), std::string::npos) << done.err;
  }
}

}  // namespace
}  // namespace hyperion
