// `hyperion comm-check` and `bench comm` on several processes, as a user runs them.
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/multi_rank/support_launch.h"

namespace hyperion::testing {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class CommCheck : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hyperion-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<RankResult> check(int ranks, const Words& more = {}, const std::map<int, Environment>& of_rank = {}) {
    Words words{HYPERION_PROGRAM, "comm-check", "--device", "cpu", "--seconds", "0.01"};
    words.insert(words.end(), more.begin(), more.end());
    return Ranks(ranks, words, {{"HYPERION_RUNS", folder_ / "runs"}}, of_rank).wait();
  }
  nlohmann::json json(const std::vector<RankResult>& results) {
    EXPECT_TRUE(nlohmann::json::accept(results[0].out)) << results[0].out << results[0].err;
    return nlohmann::json::parse(results[0].out, nullptr, false);
  }
  static std::string faults(const nlohmann::json& result) {
    std::string text;
    for (const auto& fault : result["faults"]) text += fault.get<std::string>() + "\n";
    return text;
  }

  fs::path folder_;
};

// Busy cores make links uneven: only what is a thousand times slower counts here.
TEST_F(CommCheck, every_collective_is_right_and_every_link_is_measured) {
  const auto results = check(3, {"--sizes", "1KiB,100000", "--tolerance", "1000", "--folder", folder_ / "out"});
  for (const auto& result : results) EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(results[0].out.find("all is well"), std::string::npos) << results[0].out;
  for (const char* name : {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "send_receive",
                           "barrier", "latency us", "bandwidth GB/s"})
    EXPECT_NE(results[0].out.find(name), std::string::npos) << name;
  for (const int rank : {1, 2}) EXPECT_EQ(results[rank].out, "");
  std::ifstream file(folder_ / "out" / "comm_check.json");
  const auto written = nlohmann::json::parse(file);
  EXPECT_EQ(written["figures"].size(), 6u * 2 + 1);
  EXPECT_EQ(written["links"].size(), 6u);
  for (const auto& link : written["links"]) EXPECT_GT(link["bandwidth"].get<double>(), 0);
  EXPECT_TRUE(fs::exists(folder_ / "out" / "comm_check.csv"));
}

TEST_F(CommCheck, a_rank_on_a_slow_link_is_named_and_all_ranks_end_with_3) {
  const auto results =
      check(4, {"--sizes", "256KiB", "--json", "--tolerance", "8"}, {{2, {{"HYPERION_SLOW_LINK", "2MB/s"}}}});
  for (const auto& result : results) EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(faults(json(results)).find("rank 2 ("), std::string::npos) << results[0].out;
  EXPECT_NE(faults(json(results)).find("to every other rank: bandwidth"), std::string::npos) << results[0].out;
  EXPECT_NE(results[1].err.find("error: comm-check found rank 2"), std::string::npos) << results[1].err;
}

TEST_F(CommCheck, a_rank_that_answers_late_is_named) {
  const auto results =
      check(3, {"--sizes", "1KiB", "--json", "--tolerance", "8"}, {{1, {{"HYPERION_SLOW_LINK", "4000us"}}}});
  EXPECT_EQ(results[0].code, 3) << results[0].err;
  EXPECT_NE(faults(json(results)).find("from and to every other rank: latency"), std::string::npos) << results[0].out;
}

// The first two things that arrive are the names of the hosts; the third is the first all_reduce.
TEST_F(CommCheck, a_bit_that_was_turned_on_the_way_is_named) {
  const auto results =
      check(3, {"--sizes", "4KiB", "--json", "--no-pairs"}, {{1, {{"HYPERION_FAULTS", "comm.arrive=flip@3"}}}});
  for (const auto& result : results) EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_NE(faults(json(results)).find("all_reduce of 4.0 KiB: rank 1 has 1 wrong number"), std::string::npos)
      << results[0].out;
}

TEST_F(CommCheck, works_alone_and_refuses_sizes_that_are_none) {
  EXPECT_EQ(check(1, {"--sizes", "1KiB"})[0].code, 0);
  const auto refused = check(1, {"--sizes", "big"})[0];
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("\"big\" is no size"), std::string::npos) << refused.err;
  EXPECT_EQ(check(1, {"--sizes", "60GiB"})[0].code, 2) << "more than there is memory for";
}

TEST_F(CommCheck, a_rank_that_does_not_come_ends_the_others_with_its_number) {
  const auto results =
      check(3, {"--sizes", "1KiB", "--timeout", "4"}, {{2, {{"HYPERION_FAULTS", "comm.arrive=kill@5"}}}});
  EXPECT_NE(results[0].code, 0);
  EXPECT_NE(results[0].err.find("rank 2"), std::string::npos) << results[0].err;
}

TEST_F(CommCheck, a_rank_that_stands_still_is_told_of_before_it_is_given_up) {
  Ranks job(2, {HYPERION_PROGRAM, "comm-check", "--device", "cpu", "--seconds", "3", "--timeout", "6"},
            {{"HYPERION_RUNS", folder_ / "runs"}});
  ASSERT_TRUE(job.wait_for_text(0, "comm-check  all_reduce 64.0 KiB"));
  job.signal(1, SIGSTOP);
  EXPECT_TRUE(job.wait_for_text(0, "has waited 3 s on rank 0; no word from rank 1"));
  EXPECT_FALSE(job.wait_for_text(0, "has waited 30 s")) << "it ends within its timeout";
  EXPECT_NE(job.wait(1)[0].err.find("failed on rank 0; no word from rank 1"), std::string::npos);
}

TEST_F(CommCheck, the_bench_gives_time_and_both_bandwidths_by_size) {
  const auto results =
      Ranks(2,
            {HYPERION_PROGRAM, "bench", "comm", "--device", "cpu", "--seconds", "0.01", "--min", "8", "--max", "128KiB",
             "--factor", "16", "--only", "all_reduce,all_gather", "--json", "--folder", folder_ / "out"},
            {{"HYPERION_RUNS", folder_ / "runs"}})
          .wait();
  ASSERT_EQ(results[0].code, 0) << results[0].err;
  const auto rows = json(results)["rows"];
  ASSERT_EQ(rows.size(), 2u * 4);
  for (const auto& row : rows) {
    const double factor = row["collective"] == "all_reduce" ? 1 : 0.5;  // of two ranks
    EXPECT_NEAR(row["bus_bandwidth"].get<double>(), factor * row["algorithm_bandwidth"].get<double>(), 1e-6);
    EXPECT_NEAR(row["algorithm_bandwidth"].get<double>() * row["seconds"].get<double>(), row["bytes"].get<double>(),
                1e-3);
    EXPECT_EQ(row["wrong"], 0);
  }
  for (const char* name : {"comm.json", "comm.csv", "comm.svg", "comm.txt"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / name)) << name;
}

TEST_F(CommCheck, scaling_runs_each_mode_on_each_number_of_ranks_and_tells_what_they_cost) {
  std::ofstream(folder_ / "tiny.toml") << "[train]\nbatch = 12\nlength = 16\n[model]\nlayers = 2\nheads = 2\nwidth = "
                                          "32\ncontext = 16\n[data]\nsource = \"text\"\npath = \""
                                       << HYPERION_SOURCE "/README.md"
                                       << "\"\n[optim]\nwarmup = 1\n";
  const auto bench = [&](const Words& more) {
    Words words{HYPERION_PROGRAM, "bench",    "scaling",      folder_ / "tiny.toml", "--device", "cpu", "--steps", "4",
                "--json",         "--folder", folder_ / "out"};
    words.insert(words.end(), more.begin(), more.end());
    return Ranks(1, words, {{"HYPERION_RUNS", folder_ / "runs"}}).wait();
  };
  const auto results = bench({"--ranks", "2,1", "--modes", "ddp,zero3"});
  ASSERT_EQ(results[0].code, 0) << results[0].err;
  const auto rows = json(results)["rows"];
  ASSERT_EQ(rows.size(), 3u) << "one process is the same in every mode";
  for (const auto& row : rows) EXPECT_FALSE(row.contains("failed")) << row;
  EXPECT_EQ(rows[0]["sent_bytes_a_step"], 0);
  // All-reduced gradients against weights gathered and gradients scattered: 2P (N-1)/N, and about 3P (N-1)/N.
  EXPECT_GT(rows[2]["sent_bytes_a_step"].get<double>(), 1.1 * rows[1]["sent_bytes_a_step"].get<double>());
  EXPECT_NEAR(rows[2]["state_bytes"].get<double>(), rows[0]["state_bytes"].get<double>() / 2,
              0.05 * rows[0]["state_bytes"].get<double>());
  EXPECT_NEAR(rows[1]["loss"].get<double>(), rows[0]["loss"].get<double>(), 1e-4);
  for (const char* name : {"scaling.json", "scaling.csv", "scaling.txt", "speedup.svg", "efficiency.svg", "memory.svg",
                           "bytes.svg", "communication.svg", "runs/zero3-2/metrics.rank-1.csv"})
    EXPECT_TRUE(fs::exists(folder_ / "out" / name)) << name;
}

}  // namespace
}  // namespace hyperion::testing
