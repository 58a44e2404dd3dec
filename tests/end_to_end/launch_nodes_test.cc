// `hyperion launch --nodes`: other machines are reached by a remote shell, here a made-up one that stays on this
// machine.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Program;
using testing::read_file;
using testing::Scratch;
using Words = std::vector<std::string>;

class LaunchNodes : public ::testing::Test {
 protected:
  LaunchNodes() {
    // As ssh is called: flags, host, a line for its shell. A login script may talk first.
    testing::write_file(scratch_.path() / "ssh",
                        "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift 2; done\necho \"$*\" >> calls\nhost=$1; "
                        "shift\necho Welcome to $host\nFAKE_HOST=$host exec sh -c \"$*\"\n");
    std::filesystem::permissions(scratch_.path() / "ssh", std::filesystem::perms(0755));
    environment_["PATH"] = scratch_.path().string() + ":" + std::getenv("PATH");
  }
  static Words words(const std::string& nodes, const Words& command, const Words& flags = {}) {
    Words all{"launch", "--nodes", nodes, "--listen", "127.0.0.1", "--logs", "logs", "--show", "all"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.push_back("--");
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  Finished launch(const std::string& nodes, const Words& command, const Words& flags = {}) {
    return testing::run(scratch_, words(nodes, command, flags), environment_);
  }
  Finished shell(const std::string& nodes, const std::string& script, const Words& flags = {}) {
    return launch(nodes, {"sh", "-c", script}, flags);
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  Scratch scratch_;
  std::map<std::string, std::string> environment_;
};

TEST_F(LaunchNodes, ranks_count_on_from_node_to_node) {
  const Finished done =
      shell("a:2,localhost:1,b:2", "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK at $FAKE_HOST");
  EXPECT_EQ(done.code, 0) << done.err;
  for (const char* line : {"[0] 0/5 0/2 0 at a\n", "[1] 1/5 1/2 0 at a\n", "[2] 2/5 0/1 1 at\n", "[3] 3/5 0/2 2 at b\n",
                           "[4] 4/5 1/2 2 at b\n"})
    EXPECT_TRUE(has(done.out, line)) << line << done.out;
}

TEST_F(LaunchNodes, fewer_ranks_fill_the_first_nodes) {
  const Finished done = shell("a:2,b:2,c:2", "echo $FAKE_HOST", {"-n", "3"});
  EXPECT_TRUE(has(done.out, "[2] b\n")) << done.out;
  EXPECT_FALSE(has(read_file(scratch_.path() / "calls"), "c cd"));
}

TEST_F(LaunchNodes, ranks_of_all_nodes_meet) {
  const Finished done = launch("a:2,b:1", {"rendezvous"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(has(done.out, "3 ranks met")) << done.out;
}

TEST_F(LaunchNodes, the_secret_and_the_command_stand_on_no_command_line) {
  const Finished done =
      shell("a:1", "printf %s \"$HYPERION_JOB_SECRET\" > secret; cat /proc/[0-9]*/cmdline | grep -caFf secret");
  EXPECT_EQ(read_file(scratch_.path() / "secret").size(), 64u);
  EXPECT_TRUE(has(done.out, "[0] 0\n")) << done.out;
  EXPECT_TRUE(has(read_file(scratch_.path() / "calls"), "launch --agent"));
}

TEST_F(LaunchNodes, settings_travel_and_output_arrives_byte_for_byte) {
  environment_["HYPERION_OPTIM__LR"] = "it's 'quoted' \\ $x";
  const Finished done = shell("a:1", "printf '%s|\\000\\377\\nout 0 99999\\n' \"$HYPERION_OPTIM__LR\"; printf end");
  EXPECT_EQ(read_file(scratch_.path() / "logs/rank-0.out"),
            std::string("it's 'quoted' \\ $x|\0\xff\nout 0 99999\nend", 37))
      << done.err;
}

TEST_F(LaunchNodes, bytes_that_are_no_characters_travel) {
  environment_["HYPERION_OPTIM__LR"] = "\xff\xc3\xbc\x80";
  const Finished done =
      launch("a:1", {"sh", "-c", "printf '%s|%s' \"$HYPERION_OPTIM__LR\" \"$1\"", "sh", "caf\xe9 \xc3\xbc"});
  EXPECT_EQ(read_file(scratch_.path() / "logs/rank-0.out"), "\xff\xc3\xbc\x80|caf\xe9 \xc3\xbc") << done.err;
}

TEST_F(LaunchNodes, what_breaks_ranks_for_tests_does_not_travel) {
  environment_["HYPERION_FAULTS"] = "train.step=kill@3", environment_["HYPERION_SLOW_LINK"] = "1MB/s";
  environment_["HYPERION_OPTIM__LR"] = "0.5";
  // The stand-in for ssh hands its own environment on; a real one does not.
  const Finished done =
      shell("a:1", "env | grep ^HYPERION_", {"--ssh", "env -u HYPERION_FAULTS -u HYPERION_SLOW_LINK ssh"});
  EXPECT_TRUE(has(done.out, "HYPERION_OPTIM__LR=0.5\n")) << done.out << done.err;
  EXPECT_FALSE(has(done.out, "HYPERION_FAULTS") || has(done.out, "HYPERION_SLOW_LINK")) << done.out;
}

TEST_F(LaunchNodes, a_failure_on_one_node_ends_the_ranks_of_the_others) {
  const Finished done = shell("a:1,b:1", "if [ $RANK = 1 ]; then echo 'error: at b' >&2; exit 6; fi; sleep 60");
  EXPECT_EQ(done.code, 6) << done.err;
  EXPECT_TRUE(has(done.err, "rank 1 of 2 (node b) ended with exit code 6; rank 0 ended after it")) << done.err;
  EXPECT_TRUE(done.err.ends_with("error: at b\n")) << done.err;
}

TEST_F(LaunchNodes, a_lost_connection_is_told_and_ends_the_job) {
  const Finished done = shell("a:1,b:1", "if [ $RANK = 1 ]; then kill -9 $PPID; fi; sleep 60");
  EXPECT_EQ(done.code, 255) << done.err;
  EXPECT_TRUE(has(done.err, "error: the connection to node b was lost")) << done.err;
}

TEST_F(LaunchNodes, a_host_that_cannot_be_reached_is_told_with_a_hint) {
  const Finished done = shell("a:2", "true", {"--ssh", "false"});
  EXPECT_EQ(done.code, 255);
  EXPECT_TRUE(has(done.err, "hint: see that ssh reaches it")) << done.err;
}

TEST_F(LaunchNodes, ctrl_c_travels_and_ranks_save) {
  Program program(
      scratch_,
      words("a:1,b:1", {"sh", "-c", "trap 'echo saved; exit 130' INT; echo ready; while :; do sleep 0.05; done"}),
      environment_);
  for (const char* ready : {"[0] ready", "[1] ready"}) ASSERT_TRUE(program.wait_for_text(ready));
  program.signal(SIGINT);
  const Finished done = program.wait();
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_TRUE(has(done.out, "[0] saved") && has(done.out, "[1] saved")) << done.out;
}

TEST_F(LaunchNodes, ranks_elsewhere_die_with_a_killed_launcher) {
  Program program(scratch_, words("a:2", {"sh", "-c", "echo $$ > pid.$RANK; echo ready; sleep 60 & wait"}),
                  environment_);
  for (const char* ready : {"[0] ready", "[1] ready"}) ASSERT_TRUE(program.wait_for_text(ready));
  program.signal(SIGKILL);
  program.wait();
  for (const char* file : {"pid.0", "pid.1"}) {
    const int pid = std::stoi(read_file(scratch_.path() / file));
    for (int i = 0; i < 500 && ::kill(pid, 0) == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_NE(::kill(pid, 0), 0);
  }
}

TEST_F(LaunchNodes, a_frozen_rank_elsewhere_is_named_with_its_node) {
  const Finished done =
      shell("a:1,b:1", "if [ $RANK = 1 ]; then kill -STOP $$; fi; sleep 60", {"--frozen-seconds", "1"});
  EXPECT_EQ(done.code, 1);
  EXPECT_TRUE(has(done.err, "rank 1 (node b) is frozen: stopped by a signal")) << done.err;
}

// Machines whose launchers someone else starts, as Kubernetes does.
class LaunchShares : public ::testing::Test {
 protected:
  Words words(int node, const Words& command) const {
    Words all{"launch",   "-n",    "4",      "--node-count", "2", "--node-rank", std::to_string(node),
              "--master", master_, "--show", "all",          "--"};
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  // Both launchers, the second started first.
  std::pair<Finished, Finished> launch(const Words& command) {
    Program second(scratch_, words(1, command), environment_), first(scratch_, words(0, command), environment_);
    Finished a = first.wait();
    return {a, second.wait()};
  }
  Scratch scratch_;
  std::map<std::string, std::string> environment_{{"HYPERION_JOB_SECRET", "a secret that both know"}};
  const std::string master_ = "127.0.0.1:" + std::to_string(20000 + ::getpid() % 10000);
};

TEST_F(LaunchShares, ranks_of_both_meet_at_the_first) {
  const auto [first, second] = launch({"rendezvous"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
  EXPECT_NE(first.out.find("4 ranks met"), std::string::npos) << first.out;
  EXPECT_NE(second.out.find("[3] hyperion launch, rank 3 of 4, local rank 1: met"), std::string::npos) << second.out;
}

TEST_F(LaunchShares, a_failure_at_one_ends_the_other) {
  const auto [first, second] = launch({"sh", "-c", "if [ $RANK = 3 ]; then exit 4; fi; sleep 60"});
  EXPECT_EQ(second.code, 4) << second.err;
  EXPECT_EQ(first.code, 1);
  EXPECT_NE(first.err.find("the job ended elsewhere: node 1: rank 3 ended with exit code 4"), std::string::npos)
      << first.err;
}

TEST_F(LaunchShares, the_first_waits_for_the_ranks_of_the_others) {
  const auto [first, second] = launch({"sh", "-c", "if [ $RANK = 3 ]; then sleep 2; fi"});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, 0) << second.err;
}

TEST_F(LaunchShares, a_killed_launcher_ends_the_other) {
  Program second(scratch_, words(1, {"sh", "-c", "echo ready; sleep 60"}), environment_),
      first(scratch_, words(0, {"sh", "-c", "echo ready; sleep 60"}), environment_);
  ASSERT_TRUE(first.wait_for_text("[0] ready"));
  ASSERT_TRUE(second.wait_for_text("[2] ready"));
  first.signal(SIGKILL);
  const Finished done = second.wait();
  EXPECT_EQ(done.code, 1);
  EXPECT_NE(done.err.find("the launcher of the first machine has ended"), std::string::npos) << done.err;
}

TEST_F(LaunchShares, a_killed_launcher_of_another_machine_is_named_by_the_first) {
  for (const char* script : {"echo ready; sleep 60", "echo ready; if [ $RANK -gt 1 ]; then sleep 60; fi"}) {
    Program second(scratch_, words(1, {"sh", "-c", script}), environment_),
        first(scratch_, words(0, {"sh", "-c", script}), environment_);
    ASSERT_TRUE(first.wait_for_text("[0] ready"));
    ASSERT_TRUE(second.wait_for_text("[2] ready"));
    second.signal(SIGKILL);
    const Finished done = first.wait();
    EXPECT_EQ(done.code, 1) << script;
    EXPECT_NE(done.err.find("the launcher of node 1 was lost"), std::string::npos) << done.err;
  }
}

TEST_F(LaunchShares, what_cannot_be_meant_is_a_usage_error) {
  for (const Words& words :
       {Words{"launch", "-n", "4", "--node-count", "2", "--", "true"},
        Words{"launch", "-n", "4", "--node-count", "2", "--node-rank", "2", "--master", "a:1", "--", "true"},
        Words{"launch", "-n", "3", "--node-count", "2", "--node-rank", "1", "--master", "a:1", "--", "true"},
        Words{"launch", "-n", "4", "--node-count", "2", "--node-rank", "1", "--master", "a", "--", "true"}}) {
    const Finished done = testing::run(scratch_, words, environment_);
    EXPECT_EQ(done.code, 2) << done.err;
  }
}

TEST_F(LaunchNodes, what_cannot_be_meant_is_a_usage_error) {
  for (const Words& words : {Words{"launch", "--nodes", "a:2", "--", "true"},  // nobody there reaches 127.0.0.1
                             Words{"launch", "--nodes", "a:0", "--listen", "127.0.0.1", "--", "true"},
                             Words{"launch", "--nodes", "-oProxyCommand=x:1", "--listen", "127.0.0.1", "--", "true"},
                             Words{"launch", "--nodes", "a:2", "-n", "3", "--listen", "127.0.0.1", "--", "true"},
                             Words{"launch", "--nodes", ",", "--listen", "127.0.0.1", "--", "true"}}) {
    const Finished done = testing::run(scratch_, words, environment_);
    EXPECT_EQ(done.code, 2) << done.err;
    EXPECT_TRUE(has(done.err, "hint:")) << done.err;
  }
}

}  // namespace
}  // namespace hyperion
