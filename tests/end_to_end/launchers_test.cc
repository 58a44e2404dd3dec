// The same program under other people's launchers, where they are installed: torchrun (script/oracles), mpirun and
// SLURM (script/setup --cluster).
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::Scratch;

const std::string kProgram = HYPERION_PROGRAM;

class Launchers : public ::testing::Test {
 protected:
  // A command line of the shell; out holds stderr too.
  Finished shell(const std::string& command) const {
    const std::string whole =
        "cd " + scratch_.path().string() + "; export XDG_CONFIG_HOME=" + scratch_.path().string() +
        " OMP_NUM_THREADS=1; unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT; exec 2>&1; " + command;
    Finished done;
    FILE* pipe = ::popen(("timeout -k 5 120 sh -c '" + whole + "'").c_str(), "r");
    char piece[4096];
    while (const size_t got = std::fread(piece, 1, sizeof piece, pipe)) done.out.append(piece, got);
    const int status = ::pclose(pipe);
    done.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return done;
  }
  static bool installed(const std::string& program) {
    return std::system(("command -v " + program + " >/dev/null").c_str()) == 0;
  }
  // Processes that have this test's folder in their environment.
  int processes_left() const {
    const std::string count =
        "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c XDG_CONFIG_HOME=" + scratch_.path().string();
    FILE* pipe = ::popen(count.c_str(), "r");
    int number = 0;
    if (std::fscanf(pipe, "%d", &number) != 1) number = -1;
    ::pclose(pipe);
    return number;
  }
  void expect_nobody_left() const {
    for (int i = 0; i < 150 && processes_left() > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(processes_left(), 0);
  }
  static void expect_met(const Finished& done, const std::string& launcher, int world) {
    EXPECT_EQ(done.code, 0) << done.out;
    EXPECT_NE(done.out.find("started by " + launcher + ", rank 0 of " + std::to_string(world)), std::string::npos)
        << done.out;
    EXPECT_NE(done.out.find(std::to_string(world) + " ranks met"), std::string::npos) << done.out;
    for (int rank = 1; rank < world; ++rank)
      EXPECT_NE(done.out.find(launcher + ", rank " + std::to_string(rank) + " of"), std::string::npos) << done.out;
  }
  Scratch scratch_;
};

TEST_F(Launchers, ranks_started_by_hand_meet_by_their_flags) {
  const std::string meet = kProgram + " rendezvous --world-size 2 --master 127.0.0.1:";
  const std::string port = std::to_string(20000 + ::getpid() % 10000);
  // Variables that say otherwise stand back.
  const Finished done =
      shell("export RANK=7 WORLD_SIZE=9; " + meet + port + " --rank 1 & " + meet + port + " --rank 0; wait");
  expect_met(done, "flags", 2);
  expect_nobody_left();
}

class Torchrun : public Launchers {
 protected:
  void SetUp() override {
    const std::string ours = std::string(HYPERION_SOURCE) + "/.deps/oracles/bin/torchrun";
    torchrun_ = std::filesystem::exists(ours) ? ours : installed("torchrun") ? "torchrun" : "";
    if (torchrun_.empty()) GTEST_SKIP() << "no torchrun here (script/oracles brings one)";
    torchrun_ += " --no-python --standalone --nproc-per-node ";
  }
  std::string torchrun_;
};

TEST_F(Torchrun, ranks_meet_at_the_agents_store) {
  expect_met(shell(torchrun_ + "3 " + kProgram + " rendezvous"), "torchrun", 3);
  expect_nobody_left();
}

TEST_F(Torchrun, a_rank_that_was_restarted_meets_the_others_anew) {
  const Finished done = shell(torchrun_ +
                              "2 --max-restarts 1 sh -c \"if [ \\$TORCHELASTIC_RESTART_COUNT = 0 ] && [ "
                              "\\$RANK = 1 ]; then exit 9; fi; exec " +
                              kProgram + " rendezvous --timeout 60\"");
  expect_met(done, "torchrun", 2);
}

class Mpirun : public Launchers {
 protected:
  void SetUp() override {
    if (!installed("mpirun")) GTEST_SKIP() << "no mpirun here (script/setup --cluster brings one)";
    if (::getuid() == 0) root_ = "--allow-run-as-root ";
  }
  std::string mpirun(int ranks, const std::string& command) const {
    return "mpirun " + root_ + "--oversubscribe -n " + std::to_string(ranks) + " " + command;
  }
  std::string root_;
};

TEST_F(Mpirun, ranks_meet_at_a_store_that_rank_0_forked) {
  expect_met(shell(mpirun(3, kProgram + " rendezvous")), "Open MPI", 3);
  expect_nobody_left();
}

TEST_F(Mpirun, two_jobs_of_one_user_at_once_do_not_meet) {
  const std::string job = mpirun(2, kProgram + " rendezvous --hold 1");
  // In folders of their own: two mpiruns that start at once trip over their session folder.
  const Finished done = shell("mkdir a b; TMPDIR=$PWD/a " + job + " > first & TMPDIR=$PWD/b " + job +
                              " > second; wait; cat first second");
  const std::string met = "2 ranks met";
  const size_t first = done.out.find(met);
  ASSERT_NE(first, std::string::npos) << done.out;
  EXPECT_NE(done.out.find(met, first + 1), std::string::npos) << done.out;
}

TEST_F(Mpirun, a_killed_rank_ends_the_job_and_leaves_nobody) {
  const Finished done = shell(mpirun(3,
                                     "sh -c \"if [ \\$OMPI_COMM_WORLD_RANK = 0 ]; then export "
                                     "HYPERION_FAULTS=comm.meet=kill; fi; exec " +
                                         kProgram + " rendezvous\""));
  EXPECT_NE(done.code, 0);
  expect_nobody_left();
}

class Slurm : public Launchers {
 protected:
  void SetUp() override {
    if (::getuid() != 0) GTEST_SKIP() << "a virtual SLURM needs root";
    for (const char* program : {"slurmctld", "slurmd", "srun", "munged", "unshare"})
      if (!installed(program)) GTEST_SKIP() << "no " << program << " here (script/setup --cluster brings SLURM)";
    const Finished trial = shell(std::string(HYPERION_SOURCE) + "/script/virtual-slurm true");
    if (trial.code == 3) GTEST_SKIP() << "a virtual SLURM does not come up here: " << trial.out;
  }
  Finished within(const std::string& command) const {
    return shell(std::string(HYPERION_SOURCE) + "/script/virtual-slurm " + command);
  }
};

TEST_F(Slurm, ranks_of_two_nodes_meet_where_the_first_node_is) {
  const Finished done = within("srun -N 2 -n 4 " + kProgram + " rendezvous");
  expect_met(done, "SLURM", 4);
  EXPECT_NE(done.out.find("4 ranks meet at node1:"), std::string::npos) << done.out;
  expect_nobody_left();
}

TEST_F(Slurm, a_failing_rank_ends_the_job) {
  const Finished done =
      within("srun -N 2 -n 2 --kill-on-bad-exit=1 sh -c \"if [ \\$SLURM_PROCID = 1 ]; then exit 7; fi; exec " +
             kProgram + " rendezvous --timeout 60\"");
  EXPECT_NE(done.code, 0);
  EXPECT_NE(done.out.find("task 1: Exited with exit code 7"), std::string::npos) << done.out;
  expect_nobody_left();
}

}  // namespace
}  // namespace hyperion
