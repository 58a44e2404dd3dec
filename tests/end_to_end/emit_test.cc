// `hyperion launch --emit`: what it prints is what lies in the repository, can be read, and runs.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <tuple>

#include "hyperion/host/ports.h"
#include "tests/end_to_end/support_program.h"

namespace hyperion {
namespace {

using testing::Finished;
using testing::read_file;
using testing::run;
using testing::Scratch;
using Words = std::vector<std::string>;

Words emit(const std::string& kind, const Words& command, const Words& flags = {}) {
  Words words{"launch", "--emit", kind, "-n", "8", "--node-count", "2"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.push_back("--");
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

TEST(Emit, the_examples_in_the_repository_are_what_is_printed) {
  Scratch scratch;
  const std::filesystem::path source = HYPERION_SOURCE;
  for (const auto& [kind, file] :
       {std::pair{"slurm", "script/slurm/train.sh"}, std::pair{"jobset", "deploy/kubernetes/jobset.yaml"},
        std::pair{"pytorchjob", "deploy/kubernetes/pytorchjob.yaml"}}) {
    const Finished done = run(scratch, emit(kind, {"train", "recipe.toml"}));
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_EQ(done.out, read_file(source / file))
        << "hyperion launch --emit " << kind << " -n 8 --node-count 2 -- train recipe.toml > " << file;
  }
}

TEST(Emit, manifests_are_yaml_and_shell_lines_survive_it) {
  const std::string python = std::string(HYPERION_SOURCE) + "/.deps/oracles/bin/python";
  if (!std::filesystem::exists(python)) GTEST_SKIP() << "no Python with yaml here (script/oracles brings one)";
  Scratch scratch;
  for (const char* kind : {"jobset", "pytorchjob"}) {
    const Finished done =
        run(scratch, emit(kind, {"train", "it's a \"recipe\".toml", "--data.path=a b"}, {"--name", "mine"}));
    testing::write_file(scratch.path() / "job.yaml", done.out);
    const std::string check = python +
                              " -c 'import yaml, sys; text = str(list(yaml.safe_load_all(open(sys.argv[1])))); assert "
                              "\"--run mine --or-resume\" in text and \"a \\\"recipe\\\".toml\" in text, text' " +
                              (scratch.path() / "job.yaml").string();
    EXPECT_EQ(std::system(check.c_str()), 0) << done.out;
  }
}

// Runs it with a stand-in for srun, which is one rank or leaves with SRUN_CODE. Returns its exit code.
int run_script(const Scratch& scratch, const std::string& script, const std::string& environment) {
  testing::write_file(scratch.path() / "job.sh", script);
  testing::write_file(scratch.path() / "srun",
                      "#!/bin/sh\n[ -z \"$SRUN_CODE\" ] || exit $SRUN_CODE\nshift\nexec \"$@\"\n");
  testing::write_file(scratch.path() / "scontrol", "#!/bin/sh\necho \"$@\" >> queued\n");
  const std::string folder = scratch.path().string(), bin = std::filesystem::path(HYPERION_PROGRAM).parent_path();
  const std::string command = "cd " + folder + " && chmod +x srun scontrol && PATH=" + folder + ":" + bin +
                              ":$PATH HYPERION_RUNS=runs OMP_NUM_THREADS=1 " + environment +
                              " timeout -k 5 120 bash job.sh >> log 2>&1";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The shell line of a pod.
std::string pod_lines(const std::string& manifest) {
  const size_t begin = manifest.find("exec hyperion");
  return manifest.substr(begin, manifest.find("\"\n", begin) - begin) + "\n";
}

TEST(Emit, a_job_that_is_started_again_goes_on_where_it_was) {
  const auto kill_at = [](int step) { return "HYPERION_FAULTS=train.step=kill@" + std::to_string(step) + " "; };
  const std::string slurm = "SLURM_JOB_ID=7 ",
                    pod = "RANK=0 MASTER_ADDR=localhost MASTER_PORT=" + std::to_string(host::find_free_port()) + " ";
  for (const auto& [kind, around, name] :
       {std::tuple{"slurm", slurm, "hyperion-7"}, std::tuple{"pytorchjob", pod, "hyperion"}}) {
    SCOPED_TRACE(kind);
    Scratch scratch;
    const std::string ranks = around == slurm ? "1" : "2";
    const Finished printed = run(scratch, {"launch", "--emit", kind, "-n", ranks, "--gpus-per-node", "0", "--", "train",
                                           testing::tiny_recipe(scratch), "--device", "cpu"});
    const std::string script = around == slurm ? printed.out : pod_lines(printed.out);
    const auto log = [&] { return read_file(scratch.path() / "log"); };
    EXPECT_EQ(run_script(scratch, script, around + kill_at(3)), 128 + SIGKILL) << log();  // before any checkpoint
    EXPECT_EQ(run_script(scratch, script, around + kill_at(8)), 128 + SIGKILL) << log();
    EXPECT_EQ(run_script(scratch, script, around), 0) << log();
    EXPECT_NE(log().find("resuming after step 6 from"), std::string::npos) << log();  // the best so far
    EXPECT_EQ(testing::losses(scratch.runs() / name).size(), 24u) << log();
    EXPECT_EQ(run_script(scratch, script, around), 0) << log();
    EXPECT_NE(log().find("is complete (step 24 of 24); nothing to do"), std::string::npos) << log();
  }
}

TEST(Emit, a_preempted_batch_job_goes_back_into_the_queue_though_the_user_named_its_run) {
  Scratch scratch;
  const Finished printed = run(scratch, {"launch", "--emit", "slurm", "-n", "1", "--gpus-per-node", "0", "--", "train",
                                         testing::tiny_recipe(scratch), "--device", "cpu", "--run", "mine"});
  EXPECT_NE(printed.out.find("--run mine --or-resume\n"), std::string::npos) << printed.out;
  EXPECT_EQ(run_script(scratch, printed.out, "SLURM_JOB_ID=7 SRUN_CODE=75"), 75);
  EXPECT_EQ(read_file(scratch.path() / "queued"), "requeue 7\n");
  EXPECT_EQ(run_script(scratch, printed.out, "SLURM_JOB_ID=7 SRUN_CODE=1"), 1);
  EXPECT_EQ(read_file(scratch.path() / "queued"), "requeue 7\n");
}

TEST(Emit, another_program_is_started_as_it_is) {
  Scratch scratch;
  EXPECT_NE(run(scratch, emit("slurm", {"sh", "-c", "echo $SLURM_PROCID"}))
                .out.find("srun --kill-on-bad-exit=1 sh -c 'echo $SLURM_PROCID'\n"),
            std::string::npos);
}

TEST(Emit, a_name_that_a_cluster_would_refuse_is_refused) {
  Scratch scratch;
  for (const Words& flags : {Words{"--name", "My Job"}, Words{"--name", "-x"}, Words{"-n", "7"}})
    EXPECT_EQ(run(scratch, emit("slurm", {"train", "r.toml"}, flags)).code, 2);
}

TEST(Emit, a_batch_job_of_two_virtual_nodes_runs_as_printed) {
  if (::getuid() != 0 || std::system("command -v sbatch slurmctld slurmd munged unshare >/dev/null") != 0)
    GTEST_SKIP() << "no SLURM here, or not root (script/setup --cluster brings it)";
  Scratch scratch;
  const Finished printed = run(scratch, emit("slurm", {"rendezvous"}, {"--gpus-per-node", "0"}));
  testing::write_file(scratch.path() / "job.sh", printed.out);
  const std::string folder = scratch.path().string(), bin = std::filesystem::path(HYPERION_PROGRAM).parent_path();
  const std::string command = "cd " + folder + " && PATH=" + bin + ":$PATH XDG_CONFIG_HOME=" + folder +
                              " timeout -k 5 120 " + HYPERION_SOURCE +
                              "/script/virtual-slurm sbatch --wait job.sh > sbatch.log 2>&1";
  const int status = std::system(command.c_str());
  if (WEXITSTATUS(status) == 3) GTEST_SKIP() << "a virtual SLURM does not come up here";
  EXPECT_EQ(status, 0) << read_file(scratch.path() / "sbatch.log");
  const std::string log = read_file(scratch.path() / "hyperion-1.log");
  EXPECT_NE(log.find("8 ranks met"), std::string::npos) << log;
  EXPECT_NE(log.find("8 ranks meet at node1:"), std::string::npos) << log;
}

}  // namespace
}  // namespace hyperion
