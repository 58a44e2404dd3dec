// `hyperion launch` where something that it counts on is missing: it does without, or says at once what.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>

#include "tests/end_to_end/support_processes.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Scratch;

// The program in a shell's surroundings: `around` ends with what takes the program and its words, such as `exec`.
Finished run_in(const Scratch& scratch, const std::string& around, std::vector<std::string> words) {
  words.insert(words.begin(), {"-c", around + " \"$@\"", "sh", testing::program()});
  return testing::run(scratch, words, {{"HYPERION_TEST_PROGRAM", "/bin/sh"}});
}

bool can_unshare(const char* flag) {
  return std::system((std::string("unshare ") + flag + " true 2>/dev/null").c_str()) == 0;
}

TEST(LaunchSurroundings, without_proc_ranks_are_started_and_meet) {
  if (!can_unshare("-m")) GTEST_SKIP() << "no mounts of one's own here";
  Scratch scratch;
  const Finished done = run_in(scratch, "exec unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh",
                               {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("2 ranks met"), std::string::npos) << done.out << done.err;
}

TEST(LaunchSurroundings, without_the_loopback_interface_the_launcher_says_so) {
  if (!can_unshare("-n")) GTEST_SKIP() << "no network of one's own here";
  Scratch scratch;
  const Finished done = run_in(scratch, "exec timeout 20 unshare -n", {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(done.code, 3) << done.err;
  EXPECT_NE(done.err.find("ip link set lo up"), std::string::npos) << done.err;
}

TEST(LaunchSurroundings, too_few_descriptors_are_told_as_that) {
  Scratch scratch;
  const Finished launcher = run_in(scratch, "ulimit -n 20; exec", {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(launcher.code, 3) << launcher.err;
  EXPECT_NE(launcher.err.find("may have 20 files, pipes and sockets open"), std::string::npos) << launcher.err;
  // How many a rank is born with depends on who started it.
  bool told = false;
  for (int most = 5; most < 40 && !told; ++most) {
    const std::string limited = "ulimit -n " + std::to_string(most) + "; exec \"$0\" rendezvous";
    const Finished rank = testing::run(scratch, {"launch", "-n", "2", "--", "sh", "-c", limited, testing::program()});
    told = rank.code == 1 &&
           rank.err.find("may have " + std::to_string(most) + " files, pipes and sockets open") != std::string::npos;
  }
  EXPECT_TRUE(told);
}

TEST(LaunchSurroundings, a_soft_limit_of_descriptors_is_raised_to_the_hard_one) {
  Scratch scratch;
  const Finished done = run_in(scratch, "ulimit -S -n 20; exec", {"launch", "-n", "2", "--", "rendezvous"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_NE(done.out.find("2 ranks met"), std::string::npos) << done.out << done.err;
}

// The launcher's own child, which waits for it to end.
int guardian_of(const std::string& mark) {
  const auto all = testing::processes_with(mark);
  for (const int process : all) {
    const std::string folder = "/proc/" + std::to_string(process);
    const std::string stat = testing::read_file(folder + "/stat");
    const int parent = std::atoi(stat.c_str() + std::min(stat.size(), stat.rfind(')') + 4));  // ") S 123 ..."
    const bool launches = testing::read_file(folder + "/cmdline").find("launch") != std::string::npos;
    if (launches && std::find(all.begin(), all.end(), parent) != all.end()) return process;
  }
  return 0;
}

TEST(LaunchSurroundings, a_guardian_that_was_stopped_neither_holds_the_launcher_nor_is_left_behind) {
  for (const bool told_to_stop : {false, true}) {
    Scratch scratch;
    const std::string mark = scratch.path().string();
    testing::Program program(
        scratch, {"launch", "-n", "1", "--", "sh", "-c", "echo ready; while ! [ -e go ]; do sleep 0.05; done"},
        {{"HYPERION_TEST_MARK", mark}});
    ASSERT_TRUE(program.wait_for_text("ready"));
    const int guardian = guardian_of("HYPERION_TEST_MARK=" + mark);
    ASSERT_GT(guardian, 0);
    ASSERT_EQ(::kill(guardian, SIGSTOP), 0);
    if (told_to_stop)
      program.signal(SIGTERM);
    else
      testing::write_file(scratch.path() / "go", "");
    EXPECT_TRUE(program.ends_within(30));
    if (testing::processes_with("HYPERION_TEST_MARK=" + mark).empty()) continue;
    EXPECT_TRUE(testing::no_process_with("HYPERION_TEST_MARK=" + mark));
    ::kill(guardian, SIGKILL);
  }
}

}  // namespace
}  // namespace hyperion
