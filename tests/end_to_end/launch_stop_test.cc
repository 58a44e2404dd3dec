// `hyperion launch --nodes` while the remote shell hangs: it can be stopped at any point, and leaves nothing behind.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <deque>
#include <thread>

#include "tests/end_to_end/support_processes.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Program;
using testing::read_file;
using testing::Scratch;

struct Hang {
  const char* where;
  const char* shell;     // what the stand-in for ssh does, once its flags and host are taken off
  size_t variable = 0;   // bytes of a variable that travels with the plan
  bool starts = false;   // the rank comes to run
  bool stopped = false;  // then the shell, but nothing that it started, is stopped
};

const Hang kHangs[] = {
    {"before it connects", "sleep 100"},
    {"after a login script has talked", "echo Welcome; sleep 100"},
    {"while it reads the plan", "head -c 10 > /dev/null; sleep 100", 100'000},
    {"once the ranks run", "cat | setsid sh -c \"$*\" | cat", 0, true, true},
    {"while it ends", "sh -c \"$*\"; sleep 100", 0, true},
};

// A launcher whose remote shell hangs.
class Hung {
 public:
  explicit Hung(const Hang& hang) : hang_(hang) {
    testing::write_file(scratch_.path() / "ssh",
                        std::string("#!/bin/sh\ntrap '' INT TERM HUP\necho $$ > shell.new; mv shell.new shell\nwhile [ "
                                    "\"${1#-}\" != \"$1\" ]; do shift 2; done\nshift\n") +
                            hang.shell + "\n");
    std::filesystem::permissions(scratch_.path() / "ssh", std::filesystem::perms(0755));
    std::map<std::string, std::string> environment{{"HYPERION_TEST_MARK", scratch_.path().string()}};
    if (hang.variable > 0) environment["HYPERION_OPTIM__LR"] = std::string(hang.variable, '1');
    program_ = std::make_unique<Program>(
        scratch_,
        std::vector<std::string>{"launch", "--nodes", "far:1", "--listen", "127.0.0.1", "--ssh", "./ssh", "--", "sh",
                                 "-c", "trap 'exit 130' INT; echo ready; while :; do sleep 0.05; done"},
        environment);
  }
  bool hangs() {
    if (hang_.starts && !program_->wait_for_text("ready")) return false;
    for (int i = 0; i < 3000 && shell() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (shell() == 0) return false;
    if (hang_.stopped) ::kill(-shell(), SIGSTOP);
    return true;
  }
  Program& program() { return *program_; }
  std::string mark() const { return "HYPERION_TEST_MARK=" + scratch_.path().string(); }
  const char* where() const { return hang_.where; }

 private:
  int shell() const { return std::atoi(read_file(scratch_.path() / "shell").c_str()); }
  const Hang& hang_;
  Scratch scratch_;
  std::unique_ptr<Program> program_;
};

TEST(LaunchStop, a_second_ctrl_c_ends_the_job_wherever_the_remote_shell_hangs) {
  std::deque<Hung> all;  // at once: each takes the seconds that ranks are given
  for (const Hang& hang : kHangs) all.emplace_back(hang);
  for (Hung& one : all) ASSERT_TRUE(one.hangs()) << one.where();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  for (int signals = 0; signals < 2; ++signals) {
    for (Hung& one : all) one.program().signal(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }
  for (Hung& one : all) {
    SCOPED_TRACE(one.where());
    ASSERT_TRUE(one.program().ends_within(10));
    const Finished done = one.program().wait();
    EXPECT_EQ(done.code, 130) << done.err;
    EXPECT_TRUE(testing::no_process_with(one.mark()));
  }
}

TEST(LaunchStop, a_killed_launcher_leaves_no_remote_shell_behind) {
  std::deque<Hung> all;
  for (const Hang& hang : kHangs) all.emplace_back(hang);
  for (Hung& one : all) ASSERT_TRUE(one.hangs()) << one.where();
  for (Hung& one : all) {
    SCOPED_TRACE(one.where());
    one.program().signal(SIGKILL);
    one.program().wait();
    EXPECT_TRUE(testing::no_process_with(one.mark()));
  }
}

}  // namespace
}  // namespace hyperion
