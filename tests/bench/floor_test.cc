#include "hyperion/bench/floor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"

namespace hyperion::bench {
namespace {

BlockSizes sizes_of(const char* name) {
  const auto& workload = *find_workloads(name)[0];
  return block_sizes(workload, config_of(workload));
}

TEST(Floor, knows_the_sizes_of_each_family) {
  const auto gpt2 = sizes_of("gpt2-124m-b32");
  EXPECT_EQ(gpt2.tokens(), 32 * 1024);
  EXPECT_EQ(gpt2.inner, 3072);
  EXPECT_EQ(gpt2.key_heads, 12);
  EXPECT_EQ(gpt2.vocabulary, 50304);
  EXPECT_FALSE(gpt2.gated);
  const auto qwen = sizes_of("qwen2.5-3b-b4");
  EXPECT_EQ(qwen.key_heads, 2);
  EXPECT_EQ(qwen.head_width, 128);
  EXPECT_TRUE(qwen.gated && qwen.causal);
  const auto vit = sizes_of("vit-h14-b16");
  EXPECT_EQ(vit.length, 257);
  EXPECT_EQ(vit.head_width, 80);
  EXPECT_EQ(vit.vocabulary, 0);
  EXPECT_FALSE(vit.gated || vit.causal);
}

TEST(Floor, counts_bytes) {
  BlockSizes s;
  s.batch = 2, s.length = 5, s.layers = 3, s.width = 8, s.inner = 32, s.vocabulary = 100;
  // 14 x 80 for two norms and 4 x 320 for an activation a layer; 3 x 1000 for the loss.
  EXPECT_EQ(passing_bytes(s, 2), 2 * (3 * (14 * 80 + 4 * 320) + 3 * 1000));
  s.gated = true;  // gate, up and their product; backward also both gradients
  EXPECT_EQ(passing_bytes(s, 2), 2 * (3 * (14 * 80 + 8 * 320) + 3 * 1000));
  EXPECT_EQ(update_bytes(7, 2), 7 * 30);
  EXPECT_EQ(update_bytes(7, 4), 7 * 32);
}

TEST(Floor, is_refused_where_it_is_not_known) {
  TrainBenchOptions options;
  options.device = "cpu", options.workloads = "tiny-gpt2,tiny-resnet";
  EXPECT_THROW(run_floor_bench(options), base::ConfigError);
  options.workloads = "gpt2-124m-b32", options.changes = {{"train.precision", "fp8"}};
  EXPECT_THROW(run_floor_bench(options), base::ConfigError);
}

TEST(Floor, stands_beside_the_step_of_the_same_run) {
  TrainBenchOptions options;
  options.device = "cpu", options.workloads = "tiny-llama,tiny-vit", options.steps = 2,
  options.folder = base::Path(testing::TempDir()) / "floor";
  const auto result = run_floor_bench(options);
  ASSERT_EQ(result.floors.size(), 2u);
  for (const auto& floor : result.floors)
    for (const double part : {floor.copy_gb_s, floor.products, floor.attention, floor.passing, floor.update})
      EXPECT_GT(part, 0) << floor.workload;
  const auto outcome = floor_outcome(result);
  EXPECT_NE(outcome.table.find("the whole step"), std::string::npos) << outcome.table;
  const auto figures = read_figures(outcome.json, "floor.json");
  EXPECT_EQ(figures.list.size(), 4u);
  EXPECT_EQ(outcome.pictures.size(), 2u);
}

TEST(Floor, splits_a_traced_step_by_cause) {
  FloorResult result;
  result.floors.push_back({"w", "bf16", 4000, 30, 9, 6, 1});
  TrainRow row;
  row.workload = "w", row.mode = "graph", row.precision = "bf16", row.step = {0.05, 0.05, 0.05, 1};
  row.kinds = profile::KindTimes{};
  const auto set = [&](profile::KernelKind kind, double ms) { (*row.kinds)[static_cast<size_t>(kind)] = ms; };
  set(profile::KernelKind::product, 31), set(profile::KernelKind::attention, 9.5);
  set(profile::KernelKind::update, 1.25), set(profile::KernelKind::ours, 7), set(profile::KernelKind::torch, 0.5);
  row.gaps = profile::Gaps{};
  row.gaps->window_ms = 250, row.gaps->busy_ms = 246.25;
  result.steps.rows.push_back(row);
  const auto json = base::Json::parse(floor_outcome(result).json)["floors"][0];
  EXPECT_EQ(json["modes"], base::Json({"graph"}));
  EXPECT_EQ(json["causes"][2]["step_ms"][0], 7.5);
  EXPECT_EQ(json["causes"].back()["floor_ms"], 46);
  const auto table = floor_outcome(result).table;
  for (const char* cell : {"31.000", "0.500", "7.500", "0.250", "0.750", "50.000", "4.000"})
    EXPECT_NE(table.find(cell), std::string::npos) << cell << "\n" << table;
}

}  // namespace
}  // namespace hyperion::bench
