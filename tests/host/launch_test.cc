#include "hyperion/host/launch.h"

#include <gtest/gtest.h>

#include <map>

#include "hyperion/base/error.h"
#include "hyperion/host/host_list.h"

namespace hyperion::host {
namespace {

using Table = std::map<std::string, std::string>;

Launch launched(const Table& table) {
  return find_launch([&](const char* name) -> const char* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  });
}

std::string complaint(const Table& table) {
  try {
    launched(table);
  } catch (const base::ConfigError& error) {
    EXPECT_FALSE(error.hint().empty());
    return error.what();
  }
  return "no complaint";
}

const Table kTorchrun = {{"RANK", "3"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "node0"},
                         {"MASTER_PORT", "29501"}};
const Table kSlurm = {{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "8"},  {"SLURM_LOCALID", "1"},
                      {"SLURM_NODEID", "1"}, {"SLURM_JOB_ID", "77"}, {"SLURM_JOB_NODELIST", "gpu[08-10],login"}};
const Table kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};

Table with(Table table, const Table& more) {
  for (const auto& [name, value] : more) table[name] = value;
  return table;
}

TEST(launch, nothing_set_is_alone) {
  const Launch launch = launched({});
  EXPECT_EQ(launch.launcher, Launcher::alone);
  EXPECT_EQ(launch.world, 1);
  EXPECT_EQ(launch.text(), "alone, no launcher's variables are set");
}

TEST(launch, our_own_launcher_is_told_from_torchrun) {
  const Launch launch = launched(with(kTorchrun, {{"HYPERION_JOB", "launch-1"}}));
  EXPECT_EQ(launch.launcher, Launcher::hyperion);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_EQ(launch.job, "launch-1");
  EXPECT_EQ(launch.text(), "hyperion launch, rank 3 of 8, local rank 1");
}

TEST(launch, torchrun_tells_rank_and_where_to_meet) {
  const Launch launch = launched(with(
      kTorchrun, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCHELASTIC_RESTART_COUNT", "2"}, {"GROUP_RANK", "1"}}));
  EXPECT_EQ(launch.launcher, Launcher::torchrun);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.world, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_world, 2);
  EXPECT_EQ(launch.node, 1);
  EXPECT_EQ(launch.master_address, "node0");
  EXPECT_EQ(launch.master_port, 29501);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_EQ(launch.restarts, 2);
  EXPECT_EQ(launch.text(), "torchrun, rank 3 of 8, local rank 1");
}

TEST(launch, torchrun_wins_over_slurm_and_slurm_over_pmi) {
  EXPECT_EQ(launched(with(kTorchrun, kSlurm)).launcher, Launcher::torchrun);
  EXPECT_EQ(launched(with(kSlurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "8"}})).launcher, Launcher::slurm);
}

TEST(launch, slurm_meets_at_the_first_host_of_its_list) {
  const Launch launch = launched(kSlurm);
  EXPECT_EQ(launch.launcher, Launcher::slurm);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.node, 1);
  EXPECT_EQ(launch.master_address, "gpu08");
  EXPECT_EQ(launch.job, "77");
  EXPECT_EQ(launched(with(kSlurm, {{"MASTER_ADDR", "other"}})).master_address, "other");
}

TEST(launch, a_slurm_step_counts_its_own_tasks_not_the_allocation) {
  EXPECT_EQ(launched(with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "6"}})).world, 6);
}

TEST(launch, a_slurm_batch_script_is_no_rank) {
  const Launch launch = launched(with(kSlurm, {{"SLURM_PROCID", "0"}, {"ENVIRONMENT", "BATCH"}}));
  EXPECT_EQ(launch.launcher, Launcher::alone);
  EXPECT_NE(launch.note.find("srun"), std::string::npos);
  EXPECT_EQ(launched(with(kSlurm, {{"ENVIRONMENT", "BATCH"}, {"SLURM_STEP_NUM_TASKS", "8"}})).launcher,
            Launcher::slurm);
}

TEST(launch, mpirun_inside_a_slurm_allocation_is_open_mpi) {
  const Launch launch = launched(with(kOpenMpi, with(kSlurm, {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}})));
  EXPECT_EQ(launch.launcher, Launcher::open_mpi);
  EXPECT_EQ(launch.rank, 1);
}

TEST(launch, open_mpi_and_pmi_are_read) {
  EXPECT_EQ(launched(kOpenMpi).text(), "Open MPI, rank 1 of 4, local rank 1");
  const Launch pmi = launched({{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "0"}});
  EXPECT_EQ(pmi.text(), "PMI, rank 2 of 3, local rank 0");
}

TEST(launch, kubernetes_counts_pods) {
  const Launch elastic = launched({{"PET_NNODES", "4"},
                                   {"PET_NODE_RANK", "2"},
                                   {"PET_MASTER_ADDR", "pod-0"},
                                   {"PET_MASTER_PORT", "23456"},
                                   {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}});
  EXPECT_EQ(elastic.text(), "Kubernetes, rank 2 of 4, local rank 0");
  EXPECT_EQ(elastic.master_address, "pod-0");
  EXPECT_EQ(elastic.master_port, 23456);
  const Launch indexed =
      launched({{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "2"}, {"KUBERNETES_SERVICE_HOST", "10.0.0.1"}});
  EXPECT_EQ(indexed.launcher, Launcher::kubernetes);
  EXPECT_EQ(indexed.rank, 1);
}

TEST(launch, an_indexed_job_without_a_size_trains_alone_and_says_so) {
  const Launch launch = launched({{"JOB_COMPLETION_INDEX", "3"}});
  EXPECT_EQ(launch.launcher, Launcher::alone);
  EXPECT_NE(launch.note.find("JOB_COMPLETION_INDEX"), std::string::npos);
}

TEST(launch, malformed_values_name_their_variable) {
  EXPECT_EQ(complaint(with(kTorchrun, {{"RANK", "abc"}})), "RANK=abc is not a whole number of at least 0");
  EXPECT_EQ(complaint(with(kTorchrun, {{"RANK", "-1"}})), "RANK=-1 is not a whole number of at least 0");
  EXPECT_EQ(complaint(with(kTorchrun, {{"RANK", "8"}})), "RANK=8 is not below WORLD_SIZE=8");
  EXPECT_EQ(complaint(with(kTorchrun, {{"WORLD_SIZE", "65537"}})),
            "WORLD_SIZE=65537 is more ranks than a job may have");
  EXPECT_EQ(complaint(with(kTorchrun, {{"WORLD_SIZE", "0"}})), "WORLD_SIZE=0 is not a whole number of at least 1");
  EXPECT_EQ(complaint(with(kTorchrun, {{"LOCAL_RANK", "2"}})), "LOCAL_RANK=2 is not below LOCAL_WORLD_SIZE=2");
  EXPECT_EQ(complaint(with(kTorchrun, {{"MASTER_PORT", "70000"}})), "MASTER_PORT=70000 is no TCP port");
  EXPECT_EQ(complaint(with(kSlurm, {{"SLURM_PROCID", "9"}})), "SLURM_PROCID=9 is not below SLURM_NTASKS=8");
  EXPECT_EQ(complaint({{"PET_NNODES", "2"}, {"PET_NODE_RANK", "0"}, {"PET_NPROC_PER_NODE", "4"}}),
            "PET_NPROC_PER_NODE=4 asks for several processes a pod");
}

TEST(launch, half_a_set_names_what_is_missing) {
  EXPECT_EQ(complaint({{"RANK", "0"}}), "RANK is set but WORLD_SIZE is not");
  EXPECT_EQ(complaint({{"WORLD_SIZE", "2"}}), "WORLD_SIZE is set but RANK is not");
  EXPECT_EQ(complaint({{"LOCAL_RANK", "2"}}), "LOCAL_RANK is set but RANK is not");
  EXPECT_EQ(complaint({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "RANK is set but LOCAL_RANK is not");
  EXPECT_EQ(complaint({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}),
            "RANK and WORLD_SIZE are set but MASTER_ADDR is not");
  EXPECT_EQ(complaint({{"OMPI_COMM_WORLD_SIZE", "2"}}), "OMPI_COMM_WORLD_SIZE is set but OMPI_COMM_WORLD_RANK is not");
  EXPECT_EQ(complaint({{"SLURM_PROCID", "0"}}), "SLURM_PROCID is set but SLURM_NTASKS is not");
}

TEST(launch, host_lists_expand_with_their_zeros) {
  using Hosts = std::vector<std::string>;
  EXPECT_EQ(expand_hosts("login"), Hosts{"login"});
  EXPECT_EQ(expand_hosts("gpu[08-10,12],login"), (Hosts{"gpu08", "gpu09", "gpu10", "gpu12", "login"}));
  EXPECT_EQ(expand_hosts("r[1-2]n[1,3]"), (Hosts{"r1n1", "r1n3", "r2n1", "r2n3"}));
  EXPECT_EQ(expand_hosts("a[9-11]b"), (Hosts{"a9b", "a10b", "a11b"}));
}

TEST(launch, host_lists_that_cannot_be_meant_are_refused) {
  for (const char* list : {"", "gpu[", "gpu]", "gpu[3-1]", "gpu[a-b]", "gpu[]", "a,,b", "gpu[0-99999999999]", "a[[1]]"})
    EXPECT_THROW(expand_hosts(list), base::ConfigError) << list;
}

TEST(launch, ranks_of_one_machine_meet_there_and_two_jobs_apart) {
  const Launch first = launched(with(kOpenMpi, {{"PMIX_NAMESPACE", "123"}})),
               second = launched(with(kOpenMpi, {{"PMIX_NAMESPACE", "124"}}));
  EXPECT_EQ(first.master_address, "127.0.0.1");
  EXPECT_GE(first.master_port, 20000);
  EXPECT_LT(first.master_port, 30000);
  EXPECT_NE(first.master_port, second.master_port);
  const Launch wide = launched(with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "8"}}));
  EXPECT_EQ(wide.master_address, "") << "some of them are elsewhere: nobody tells where rank 0 is";
}

TEST(launch, steps_of_one_slurm_job_meet_apart) {
  EXPECT_NE(launched(with(kSlurm, {{"SLURM_STEP_ID", "0"}})).master_port,
            launched(with(kSlurm, {{"SLURM_STEP_ID", "1"}})).master_port);
}

std::string flag_complaint(const RankFlags& flags) {
  try {
    set_rank_flags(flags);
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(launch, flags_beat_variables_and_are_held_to_the_same_rules) {
  EXPECT_EQ(flag_complaint({"x", "2", "", "a:1"}), "--rank=x is not a whole number of at least 0");
  EXPECT_EQ(flag_complaint({"0", "", "", ""}), "--rank is set but --world-size is not");
  EXPECT_EQ(flag_complaint({"2", "2", "", "a:1"}), "--rank=2 is not below --world-size=2");
  EXPECT_EQ(flag_complaint({"0", "2", "", ""}), "--rank and --world-size are given but not --master HOST:PORT");
  EXPECT_EQ(flag_complaint({"0", "2", "", "a:99999"}), "--master a:99999 is not HOST:PORT");
  EXPECT_EQ(flag_complaint({"1", "2", "", "[::1]:400"}), "no complaint");
  const Launch launch = find_launch();
  EXPECT_EQ(launch.text(), "flags, rank 1 of 2, local rank 1");
  EXPECT_EQ(launch.master_address, "::1");
  EXPECT_EQ(launch.master_port, 400);
}

}  // namespace
}  // namespace hyperion::host
