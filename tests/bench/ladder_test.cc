#include "hyperion/bench/ladder.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"

namespace hyperion::bench {
namespace {

LadderOptions ladder_options() {
  LadderOptions options;
  options.device = "cpu";
  options.steps = 2;
  options.modes = {"reference", "fused", "never"};
  options.folder = base::Path(testing::TempDir()) / "ladder_test";
  return options;
}

const Ladder& tiny_ladder() {
  static const Ladder ladder = run_ladder(*find_workloads("tiny-gpt2")[0], ladder_options());
  return ladder;
}

TEST(LadderBench, each_rung_has_its_phases_and_kernels) {
  ASSERT_EQ(tiny_ladder().rungs.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    const auto& rung = tiny_ladder().rungs[i];
    ASSERT_TRUE(rung.up()) << rung.row.failed;
    ASSERT_TRUE(rung.phases.has_value());
    for (size_t phase = 1; phase < 4; ++phase) EXPECT_GT((*rung.phases)[phase], 0);
    EXPECT_FALSE(rung.kernels.empty());
    EXPECT_GT(rung.launches, 0);
    double sum = 0;
    for (const auto& kernel : rung.kernels) sum += kernel.milliseconds;
    EXPECT_NEAR(sum, rung.row.gaps->busy_ms / kTracedSteps, 0.05 * sum);  // no moment counts twice
  }
}

TEST(LadderBench, a_rung_that_is_refused_is_shown_with_the_reason) {
  EXPECT_FALSE(tiny_ladder().rungs[2].up());
  const auto outcome = ladder_outcome(tiny_ladder());
  EXPECT_NE(outcome.table.find("never: train.optimize"), std::string::npos) << outcome.table;
  EXPECT_NE(outcome.table.find("reference -> fused"), std::string::npos) << outcome.table;
  const auto figures = read_figures(outcome.json, "ladder.json");
  ASSERT_EQ(figures.list.size(), 3u);
  EXPECT_FALSE(figures.list[2].value.has_value());
}

TEST(LadderBench, speedup_counts_from_the_lowest_rung_that_stands) {
  Ladder ladder{"w", "CPU", 10, {}};
  for (const double seconds : {0.0, 0.4, 0.1}) {
    Rung rung;
    rung.row.mode = "m" + std::to_string(ladder.rungs.size());
    if (seconds == 0) rung.row.failed = "refused";
    rung.row.step = {seconds, seconds, seconds, 1};
    ladder.rungs.push_back(rung);
  }
  const auto outcome = optimize_outcome({ladder, ladder});
  EXPECT_NE(outcome.table.find("4.00x"), std::string::npos) << outcome.table;
  const auto json = base::parse_json(outcome.json, "optimize.json");
  EXPECT_EQ(json["ladders"].size(), 2u);
  EXPECT_DOUBLE_EQ(json["ladders"][0]["rungs"][1]["speedup"], 1);
}

TEST(LadderBench, a_rung_that_ran_as_another_mode_has_no_speedup) {
  Ladder ladder{"w", "CPU", 10, {}};
  for (const char* mode : {"reference", "fused", "graph"}) {
    Rung rung;
    rung.row.mode = mode;
    rung.row.step = {0.4 / static_cast<double>(ladder.rungs.size() + 1), 0, 0, 1};
    if (ladder.rungs.size() == 2) rung.row.ran_as = "fused";
    ladder.rungs.push_back(rung);
  }
  const auto outcome = ladder_outcome(ladder);
  EXPECT_NE(outcome.table.find("2.00x"), std::string::npos) << outcome.table;
  EXPECT_EQ(outcome.table.find("3.00x"), std::string::npos) << outcome.table;
  EXPECT_EQ(outcome.pictures.at(0).second.find("3.00x"), std::string::npos);
  EXPECT_TRUE(base::parse_json(outcome.json, "ladder.json")["rungs"][2]["speedup"].is_null());
}

TEST(LadderBench, traces_as_many_steps_as_bench_train_and_counts_as_many) {
  TrainBenchOptions options;
  options.workloads = "tiny-gpt2", options.device = "cpu", options.modes = {"fused"}, options.steps = 2;
  options.trace = true, options.folder = base::Path(testing::TempDir()) / "ladder_test_train";
  std::filesystem::remove_all(options.folder);
  ASSERT_FALSE(run_train_bench(options).ours_failed());
  const auto products_in = [](const base::Path& folder, const char* mode) {
    for (const auto& entry : std::filesystem::directory_iterator(folder / "traces"))
      if (entry.path().filename().string().find(mode) != std::string::npos) {
        const auto text = base::real_files().read(entry.path());
        int64_t count = 0;
        for (size_t at = text.find("aten::mm\""); at != text.npos; at = text.find("aten::mm\"", at + 1)) ++count;
        return count;
      }
    return int64_t{-1};
  };
  tiny_ladder();
  const int64_t of_train = products_in(options.folder, "fused");
  EXPECT_GT(of_train, 0);
  EXPECT_EQ(products_in(ladder_options().folder, "fused"), of_train);
}

TEST(LadderBench, a_setting_that_is_wrong_for_every_rung_is_an_error) {
  auto options = ladder_options();
  options.changes = {{"train.precision", "fp9"}};
  EXPECT_THROW(run_ladder(*find_workloads("tiny-gpt2")[0], options), base::ConfigError);
}

}  // namespace
}  // namespace hyperion::bench
