#include "hyperion/bench/floor.h"

#include <gtest/gtest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/train/feed.h"

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

FloorWork work_of(const char* name, const Changes& changes) {
  const auto& workload = *find_workloads(name)[0];
  return floor_work(workload, config_of(workload, changes));
}

// forward, to_input and to_weight of each
using Products = std::vector<std::array<int64_t, 3>>;
Products products_of(const FloorWork& work) {
  Products list;
  for (const auto& l : work.linears) list.push_back({l.forward, l.to_input, l.to_weight});
  return list;
}

TEST(Floor, makes_no_gradients_of_frozen_weights) {
  const auto whole = work_of("qwen2.5-3b-b4", {});
  EXPECT_EQ(products_of(whole), (Products{{36, 36, 36}, {36, 36, 36}, {36, 36, 36}, {36, 36, 36}, {1, 1, 1}}));
  EXPECT_EQ(whole.trained, 3'085'938'688);
  const auto adapted = work_of("qwen2.5-3b-b4", {{"lora.rank", "16"}});
  EXPECT_EQ(products_of(adapted), (Products{{36, 35, 0}, {36, 36, 0}, {36, 36, 0}, {36, 36, 0}, {1, 1, 0}}));
  // q, k, v; o; gate, up; down: rank times in and out of each.
  EXPECT_EQ(adapted.trained, 36 * 16 * (3 * 2048 + 2560 + 2 * 2048 + 2 * 2048 + 22016 + 11008 + 2048));
  const auto& of_heads = adapted.linears[0];
  EXPECT_EQ(of_heads.lowered, 36);
  EXPECT_EQ(of_heads.adapted_out, 36 * 2560);
  EXPECT_EQ(of_heads.ranks, 36 * 48);
  EXPECT_EQ(of_heads.ranks_to_input, 35 * 48);
  EXPECT_EQ(of_heads.raised, 36 * 16 * 2560);
  EXPECT_EQ(adapted.linears[3].ranks_to_input, 36 * 16);
  EXPECT_EQ(adapted.linears[4].ranks, 0);
  const ProductTimes times{1, 10, 100};
  EXPECT_EQ(products_ms(whole.linears[1], times), 36 * 111);
  EXPECT_EQ(products_ms(adapted.linears[1], times), 36 * 11);
}

TEST(Floor, knows_which_linears_have_adapters) {
  const auto some = work_of("tiny-llama", {{"lora.rank", "4"}, {"lora.targets", "q_proj,v_proj"}});
  EXPECT_EQ(products_of(some), (Products{{4, 3, 0}, {4, 4, 0}, {4, 4, 0}, {4, 4, 0}, {1, 1, 0}}));
  EXPECT_EQ(some.linears[0].lowered, 4);
  EXPECT_EQ(some.linears[0].ranks, 4 * 8);
  EXPECT_LT(some.linears[0].adapted_out, 4 * some.linears[0].out);
  for (size_t i = 1; i < 5; ++i) EXPECT_EQ(adapter_bytes(some.linears[i], 64, 4), 0) << i;
  // Nothing below the lowest adapter needs a gradient.
  const auto high = work_of("tiny-llama", {{"lora.rank", "4"}, {"lora.targets", "2.mlp.up_proj,3.mlp.up_proj"}});
  EXPECT_EQ(products_of(high), (Products{{4, 1, 0}, {4, 1, 0}, {4, 1, 0}, {4, 2, 0}, {1, 1, 0}}));
  EXPECT_EQ(high.linears[2].ranks_to_input, 4);
  for (const char* name : {"tiny-gpt2", "tiny-vit"}) {
    const auto work = work_of(name, {{"lora.rank", "4"}});
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(work.linears[i].lowered, work.linears[i].forward) << name << i;
    for (size_t i = 0; i < 4; ++i)
      EXPECT_EQ(work.linears[i].adapted_out, work.linears[i].forward * work.linears[i].out);
  }
}

TEST(Floor, counts_what_adapters_add) {
  // Two blocks, ranks 3 beside two of three linears over an input of 8, with outputs of 8 and 4.
  FloorLinears l{8, 16, 2, 1, 0, true};
  l.lowered = 2, l.adapted_out = 24, l.ranks = 12, l.ranks_to_input = 6, l.raised = 72;
  EXPECT_EQ(adapter_bytes(l, 10, 2), 2 * 10 * (2 * 2 * 8 + 2 * 12));
  EXPECT_EQ(products_ms(l, {128, 256, 1e9}), 2 * 128 + 256);
  // 72 of 128 elements of a weight more forward, 6 rows beside 16 backward; the passes by their bytes
  EXPECT_EQ(adapters_ms(l, {128, 256}, 1000), 72 + 6 * 16 + 1000);
  // or by their operations: twice 12 of 16 rows, and twice 72 elements.
  EXPECT_EQ(adapters_ms(l, {128, 256}, 1), 72 + 6 * 16 + 2 * 12 * 8 + 2 * 72);
  // Half a byte and a 64th and a 4096th, and two written, for each of three products.
  EXPECT_EQ(whole_bytes(l, 2), 3 * 128 * (0.5 + 1. / 64 + 1. / 4096 + 2));
  EXPECT_EQ(whole_bytes({8, 16, 2, 1}, 2), 0);
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

TEST(Floor, of_adapters_beside_4_bits_adds_up) {
  TrainBenchOptions options;
  options.device = "cpu", options.workloads = "tiny-llama", options.steps = 2;
  options.folder = base::Path(testing::TempDir()) / "floor_adapters";
  options.changes = {{"lora.rank", "4"}, {"model.quantize", "nf4"}};
  const auto result = run_floor_bench(options);
  const auto& floor = result.floors.at(0);
  const auto ms = [&](double bytes) { return bytes / floor.copy_gb_s / 1e6; };
  const auto work = work_of("tiny-llama", options.changes);
  double wholes = 0;
  for (const auto& l : work.linears) wholes += whole_bytes(l, 4);
  EXPECT_EQ(work.linears.back().quantized, false);
  EXPECT_GT(floor.adapters, 0);
  EXPECT_LT(floor.adapters, floor.products);
  EXPECT_NEAR(floor.wholes, ms(wholes), 1e-9);
  EXPECT_NEAR(floor.passing, ms(passing_bytes(sizes_of("tiny-llama"), 4) + wholes), 1e-9);
  EXPECT_NEAR(floor.update, ms(update_bytes(work.trained, 4)), 1e-9);
  const auto json = base::Json::parse(floor_outcome(result).json)["floors"][0];
  EXPECT_EQ(json["adapters_ms"], floor.adapters);
  EXPECT_EQ(json["causes"].back()["floor_ms"], floor.products + floor.attention + floor.passing + floor.update);
}

TEST(Floor, counts_attention_by_documents) {
  BlockSizes s;
  s.batch = 2, s.length = 10;
  EXPECT_EQ(part_within_documents(s), 1);
  s.documents = {{10, 10}};
  EXPECT_EQ(part_within_documents(s), 1) << "each row is one document";
  s.documents = {{6, 4, 5}, {2, 2, 2, 1}};  // 77 and 13 pairs of 200
  EXPECT_EQ(part_within_documents(s), (77 + 13) / 400.);

  EXPECT_TRUE(sizes_of("tiny-llama").documents.empty());
  EXPECT_TRUE(sizes_of("qwen2.5-3b-b4").documents.empty());
  for (const char* name : {"tiny-llama-packed", "tiny-llama-lora-packed", "qwen2.5-3b-packed"}) {
    SCOPED_TRACE(name);
    const auto& workload = *find_workloads(name)[0];
    const auto config = config_of(workload);
    const auto sizes = block_sizes(workload, config);
    EXPECT_EQ(sizes.tokens(), config.train.batch * config.train.length);
    ASSERT_EQ(sizes.documents.size(), static_cast<size_t>(random_batches(config)));
    for (int64_t i = 0; i < random_batches(config); ++i) {  // those that the step trains on
      std::vector<int64_t> expected;
      for (const auto& row : document_lengths(random_batch(config, random_shape(config), 0, i)))
        expected.insert(expected.end(), row.begin(), row.end());
      EXPECT_EQ(sizes.documents[static_cast<size_t>(i)], expected);
    }
    // Of documents of mean m and standard deviation 2/3 m, a quarter of a row or less: n (m^2 + 4/9 m^2) of n m length.
    EXPECT_GT(part_within_documents(sizes), 0.1);
    EXPECT_LT(part_within_documents(sizes), 0.5);
  }
}

TEST(Floor, of_documents_that_share_rows_is_measured_within_them) {
  TrainBenchOptions options;
  options.device = "cpu", options.workloads = "tiny-llama-packed,tiny-llama-lora-packed", options.steps = 2;
  options.folder = base::Path(testing::TempDir()) / "floor_documents";
  const auto result = run_floor_bench(options);
  ASSERT_EQ(result.floors.size(), 2u);
  for (const auto& floor : result.floors) {
    EXPECT_GT(floor.attention, 0) << floor.workload;
    EXPECT_GT(floor.documents, 4) << floor.workload;
    EXPECT_EQ(floor.within, part_within_documents(sizes_of(floor.workload.c_str())));
  }
  const auto outcome = floor_outcome(result);
  EXPECT_NE(outcome.table.find("documents a step: "), std::string::npos) << outcome.table;
  const auto json = base::Json::parse(outcome.json)["floors"][1];
  EXPECT_EQ(json["documents"], result.floors[1].documents);
  EXPECT_EQ(json["within_documents"], result.floors[1].within);
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
