#include "hyperion/doctor/software_checks.h"

#include <gtest/gtest.h>

#include <map>

namespace hyperion::doctor {
namespace {

bool software_says(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

Verdict verdict(const char* name, const char* built, const char* loaded) {
  const Check check = check_library({name, built, loaded});
  EXPECT_EQ(check.hint.empty(), check.verdict == Verdict::ok) << name << built << loaded;
  return check.verdict;
}

TEST(software_checks, equal_versions_are_fine) {
  EXPECT_EQ(verdict("NCCL", "2.28.9", "2.28.9"), Verdict::ok);
  EXPECT_EQ(verdict("LibTorch", "2.11.0", "2.11.0+cu130"), Verdict::ok);
  EXPECT_EQ(verdict("CUDA runtime", "13.0", "13.0"), Verdict::ok);
}

TEST(software_checks, another_nccl_fails_either_way) {
  EXPECT_EQ(verdict("NCCL", "2.28.9", "2.21.5"), Verdict::fail);
  EXPECT_EQ(verdict("NCCL", "2.21.5", "2.28.9"), Verdict::fail);
  EXPECT_EQ(verdict("NCCL", "2.28.9", "2.28.7"), Verdict::warn);
  EXPECT_TRUE(software_says(check_library({"NCCL", "2.28.9", "2.21.5"}).hint, "NCCL 2.28.9"));
}

TEST(software_checks, an_older_cudnn_fails_and_a_newer_one_warns) {
  EXPECT_EQ(verdict("cuDNN", "9.10.2", "8.9.7"), Verdict::fail);
  EXPECT_EQ(verdict("cuDNN", "9.10.2", "9.8.0"), Verdict::fail);
  EXPECT_EQ(verdict("cuDNN", "9.10.2", "9.13.0"), Verdict::warn);
}

TEST(software_checks, another_libtorch_fails) { EXPECT_EQ(verdict("LibTorch", "2.11.0", "2.12.0"), Verdict::fail); }

TEST(software_checks, a_library_left_out_of_libtorch_is_no_fault) {
  EXPECT_EQ(verdict("cuDNN", "", ""), Verdict::ok);
  EXPECT_EQ(verdict("NCCL", "2.28.9", ""), Verdict::warn);
}

TEST(software_checks, gloo_out_of_order_fails_with_its_words) {
  EXPECT_EQ(check_gloo("").verdict, Verdict::ok);
  EXPECT_EQ(check_gloo("connection refused").verdict, Verdict::fail);
  EXPECT_EQ(check_gloo("connection refused").finding, "connection refused");
}

TEST(software_checks, variables_of_nccl_are_shown_and_the_preset_is_offered_where_it_fits) {
  const Check none = check_nccl({}, {"NVIDIA H200"}, false);
  EXPECT_EQ(none.verdict, Verdict::ok);
  EXPECT_TRUE(software_says(none.finding, "none"));
  const Check some = check_nccl({"NCCL_DEBUG=INFO", "NCCL_P2P_DISABLE=1"}, {}, false);
  EXPECT_EQ(some.finding, "NCCL_DEBUG=INFO, NCCL_P2P_DISABLE=1");
  const Check bare = check_nccl({"NCCL_CROSS_NIC=0"}, {"AMD Instinct MI250X"}, true);
  EXPECT_EQ(bare.verdict, Verdict::warn);
  EXPECT_TRUE(software_says(bare.hint, "--nccl.preset=mi250x sets HSA_FORCE_FINE_GRAIN_PCIE=1"));
  EXPECT_TRUE(software_says(bare.hint, "NCCL_SOCKET_IFNAME=hsn"));
  EXPECT_FALSE(software_says(bare.hint, "NCCL_CROSS_NIC"));
}

Check launcher(const std::map<std::string, std::string>& table) {
  return check_launch([&](const char* name) -> const char* {
    const auto found = table.find(name);
    return found == table.end() ? nullptr : found->second.c_str();
  });
}

TEST(software_checks, a_malformed_rank_fails_and_names_the_variable) {
  const Check check = launcher({{"RANK", "abc"}, {"WORLD_SIZE", "2"}});
  EXPECT_EQ(check.verdict, Verdict::fail);
  EXPECT_TRUE(software_says(check.finding, "RANK=abc"));
  EXPECT_FALSE(check.hint.empty());
}

TEST(software_checks, the_launcher_that_won_is_named) {
  EXPECT_EQ(launcher({}).verdict, Verdict::ok);
  EXPECT_EQ(launcher({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).finding,
            "Open MPI, rank 0 of 1, local rank 0");
  EXPECT_EQ(launcher({{"JOB_COMPLETION_INDEX", "0"}}).verdict, Verdict::warn);
}

TEST(software_checks, a_taken_port_warns_unless_our_launcher_took_it) {
  EXPECT_EQ(check_port(29500, true, {}).verdict, Verdict::ok);
  EXPECT_EQ(check_port(29500, false, {}).verdict, Verdict::warn);
  EXPECT_TRUE(software_says(check_port(29500, false, {}).hint, "MASTER_PORT"));
  host::Launch launch;
  launch.agent_store = true;
  EXPECT_EQ(check_port(29500, false, launch).verdict, Verdict::ok);
}

TEST(software_checks, profilers_are_optional) {
  const Check check = check_profilers({{"nsys", "/opt/bin/nsys"}, {"ncu", std::nullopt}});
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.finding, "/opt/bin/nsys (not found, not needed to train: ncu)");
  EXPECT_TRUE(software_says(check_profilers({{"ncu", std::nullopt}}).finding, "none installed"));
}

TEST(software_checks, features_off_say_why) {
  comm::Versions versions;
  const Check check = check_features(versions, false, {"libnvidia-ml.so.1 not found"});
  EXPECT_EQ(check.verdict, Verdict::ok);
  EXPECT_EQ(check.finding,
            "CUDA kernels and NCCL (built with the cpu preset); GPU telemetry (libnvidia-ml.so.1 not found)");
  versions.gpu_form = true;
  EXPECT_EQ(check_features(versions, true, {}).finding, "none");
}

}  // namespace
}  // namespace hyperion::doctor
