#include "hyperion/bench/train.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/config.h"
#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/bench/peers.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/models/registry.h"

namespace hyperion::bench {
namespace {

TrainBenchOptions tiny(const std::string& workloads) {
  TrainBenchOptions options;
  options.workloads = workloads;
  options.device = "cpu";
  options.steps = 2;
  return options;
}

TEST(Workloads, every_one_is_a_valid_config_of_the_published_size) {
  for (const auto& workload : workloads()) {
    const auto config = config_of(workload);
    EXPECT_EQ(config.optim.clip, 1) << workload.name;
    EXPECT_EQ(config.train.batch, workload.batch);
  }
  const auto parameters = [](const char* name) {
    const auto config = config_of(*find_workloads(name)[0]);
    return models::config_shape(models::config_json(config.model), name, config.train.length).parameters;
  };
  // GPT-2's 124,439,808 and 47 rows of padding of 768.
  EXPECT_EQ(parameters("gpt2-124m-b32"), 124'439'808 + 47 * 768);
  // ResNet-50's published 25,557,032.
  EXPECT_EQ(parameters("resnet50-b32"), 25'557'032);
  // ViT-B/16's 85,798,656 below the head, and a head of 100 classes.
  EXPECT_EQ(parameters("vit-b16-b64"), 85'798'656 + 100 * 769);
}

// What each setting says, but where documents come from: a bench draws them.
std::map<std::string, std::string> said(train::RunConfig& config) {
  config.data.path.clear();
  const auto settings = train::bind(config);
  std::map<std::string, std::string> list;
  for (const auto& setting : settings.all()) list[setting.name()] = setting.text();
  return list;
}

TEST(Workloads, and_the_recipes_of_their_names_say_the_same) {
  const auto recipes = base::Path(HYPERION_SOURCE) / "recipes" / "workloads";
  int seen = 0;
  for (const auto& workload : workloads()) {
    const auto path = recipes / (std::string(workload.name) + ".toml");
    EXPECT_TRUE(workload.group != WorkloadGroup::finetune || std::filesystem::exists(path)) << path;
    if (!std::filesystem::exists(path)) continue;
    train::RunConfig recipe;
    train::bind(recipe).read_toml(base::real_files().read(path), path.string());
    auto config = config_of(workload);
    const auto expected = said(config);
    for (const auto& [name, text] : said(recipe)) EXPECT_EQ(text, expected.at(name)) << path << ": " << name;
    ++seen;
  }
  EXPECT_GE(seen, 7);
}

TEST(Workloads, are_found_by_name_list_and_group) {
  EXPECT_EQ(find_workloads("all").size(), 10u);
  EXPECT_EQ(find_workloads("finetune").size(), 5u);
  EXPECT_EQ(find_workloads("tiny").size(), 8u);
  const auto two = find_workloads("tiny-vit,gpt2-774m-b8");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_STREQ(two[1]->name, "gpt2-774m-b8");
  try {
    find_workloads("gpt2-774m-b9");
    ADD_FAILURE();
  } catch (const base::ConfigError& error) {
    EXPECT_NE(error.hint().find("did you mean gpt2-774m-b8?"), std::string::npos) << error.hint();
  }
  EXPECT_THROW(find_workloads(""), base::ConfigError);
  EXPECT_THROW(find_workloads("tiny-vit,"), base::ConfigError);
}

TEST(Workloads, settings_of_the_bench_are_checked) {
  const auto& workload = *find_workloads("tiny-gpt2")[0];
  EXPECT_EQ(config_of(workload, {{"train.precision", "bf16"}}).train.precision, train::Precision::bf16);
  EXPECT_THROW(config_of(workload, {{"train.precision", "fp9"}}), base::ConfigError);
  EXPECT_THROW(config_of(workload, {{"train.batch", "3"}, {"train.accumulate", "2"}}), base::ConfigError);
}

TEST(Workloads, of_fine_tuning_say_what_they_train) {
  const auto qlora = config_of(*find_workloads("qwen2.5-3b-qlora")[0]);
  EXPECT_EQ(qlora.lora.rank, 16);
  EXPECT_EQ(qlora.lora.targets, "all-linear");
  EXPECT_EQ(qlora.model.quantize, models::Quantize::nf4);
  EXPECT_EQ(qlora.train.precision, train::Precision::bf16);
  // Of 36 layers, rank 16 beside 2048 to 2048 twice, 2048 to 256 twice, 2048 to 11008 twice and back.
  EXPECT_EQ(random_shape(qlora).trained, 36 * 16 * (2 * 4096 + 2 * 2304 + 3 * 13056));
  const auto packed = config_of(*find_workloads("qwen2.5-3b-lora-packed")[0]);
  EXPECT_TRUE(packs_documents(packed));
  EXPECT_EQ(packed.lora.rank, 16);
  EXPECT_EQ(config_of(*find_workloads("qwen2.5-3b-lora")[0], {{"lora.rank", "8"}}).lora.rank, 8);
  EXPECT_FALSE(packs_documents(qlora));
}

TEST(Workloads, a_peer_is_told_adapter_and_documents) {
  const auto& workload = *find_workloads("tiny-llama-lora-packed")[0];
  const auto config = config_of(workload, {{"model.quantize", "nf4"}});
  const auto json = base::parse_json(workload_json(workload, config), "the workload");
  EXPECT_EQ(json.at("lora").at("rank"), 16);
  EXPECT_EQ(json.at("lora").at("scale"), 1.0);
  EXPECT_EQ(json.at("lora").at("quantize"), "nf4");
  EXPECT_GT(json.at("trained"), 0);
  ASSERT_EQ(json.at("documents").size(), 16u);
  EXPECT_EQ(json.at("documents").at(0).size(), 2u);
  const auto whole = base::parse_json(
      workload_json(*find_workloads("tiny-llama")[0], config_of(*find_workloads("tiny-llama")[0])), "the workload");
  EXPECT_FALSE(whole.contains("lora") || whole.contains("documents"));
}

TEST(Workloads, a_resnet_takes_no_adapter) {
  EXPECT_THROW(config_of(*find_workloads("tiny-resnet")[0], {{"lora.rank", "4"}}), base::ConfigError);
  EXPECT_EQ(config_of(*find_workloads("tiny-vit")[0], {{"lora.rank", "4"}}).lora.rank, 4);
}

TEST(TrainBench, tokens_a_second_are_without_padding) {
  const auto result = run_train_bench(tiny("tiny-llama-packed,tiny-llama-lora-packed"));
  ASSERT_EQ(result.rows.size(), 2u);
  for (const auto& row : result.rows) {
    EXPECT_EQ(row.failed, "");
    EXPECT_NEAR(row.tokens_s * row.step.median, work_of_step(config_of(*find_workloads(row.workload)[0])).tokens, 1e-6);
    EXPECT_LT(row.tokens_s * row.step.median, 2 * 64);
  }
  EXPECT_EQ(result.rows[0].trained, result.rows[0].parameters);
  EXPECT_LT(result.rows[1].trained, result.rows[1].parameters);
}

TEST(TrainBench, times_whole_steps_of_each_workload_and_mode) {
  auto options = tiny("tiny-gpt2,tiny-vit");
  options.modes = {"reference", "fused"};
  const auto result = run_train_bench(options);
  ASSERT_EQ(result.rows.size(), 4u);
  for (const auto& row : result.rows) {
    EXPECT_EQ(row.failed, "") << row.workload;
    EXPECT_GT(row.step.median, 0);
    EXPECT_GT(row.first_step, 0);
    EXPECT_TRUE(std::isfinite(row.last_loss));
    EXPECT_NEAR(row.samples_s * row.step.median, 2, 1e-9);
    EXPECT_EQ(row.tokens_s > 0, row.workload == "tiny-gpt2");
    EXPECT_EQ(row.mfu, 0);  // no datasheet for this CPU
  }
  EXPECT_FALSE(result.ours_failed());
}

TEST(TrainBench, a_mode_the_settings_refuse_is_a_row_that_says_so) {
  auto options = tiny("tiny-gpt2");
  options.modes = {"never"};
  const auto result = run_train_bench(options);
  ASSERT_EQ(result.rows.size(), 1u);
  EXPECT_NE(result.rows[0].failed.find("never"), std::string::npos);
  EXPECT_TRUE(result.ours_failed());
  const auto outcome = train_outcome(result);
  EXPECT_NE(outcome.table.find("no figures"), std::string::npos);
  EXPECT_FALSE(read_figures(outcome.json, "train.json").list[0].value.has_value());
}

TEST(TrainBench, a_step_that_fails_is_a_row_that_says_why) {
  const auto row =
      attempt_training(*find_workloads("tiny-gpt2")[0], "fused", {}, 2,
                       {[](RandomTraining&, TrainRow&) { throw std::runtime_error("broken\nbacktrace"); }});
  EXPECT_EQ(row.failed, "broken");
  EXPECT_THROW(attempt_training(*find_workloads("tiny-gpt2")[0], "fused", {}, 2,
                                {[](RandomTraining&, TrainRow&) { throw base::Interrupted("stop", 130); }}),
               base::Interrupted);
}

TEST(TrainBench, a_mode_that_did_not_run_is_not_shown_as_if_it_had) {
  auto options = tiny("tiny-gpt2");
  options.modes = {"fused", "graph"};
  const auto result = run_train_bench(options);
  EXPECT_EQ(result.rows[0].ran_as, "");
  EXPECT_EQ(result.rows[1].ran_as, "fused");
  const auto outcome = train_outcome(result);
  for (const auto& text : {outcome.table, outcome.pictures.at(0).second})
    EXPECT_NE(text.find("graph (ran as fused)"), std::string::npos) << text;
  EXPECT_NE(outcome.json.find("\"ran_as\": \"fused\""), std::string::npos);
}

TEST(TrainBench, a_result_tells_the_settings_it_was_measured_with) {
  auto options = tiny("tiny-gpt2");
  options.changes = {{"train.batch", "4"}, {"train.precision", "fp32"}};
  const auto outcome = train_outcome(run_train_bench(options));
  EXPECT_EQ(read_figures(outcome.json, "").settings, std::vector<std::string>{"train.batch=4"});
}

TEST(TrainBench, a_workload_named_twice_is_measured_once) {
  EXPECT_EQ(find_workloads("tiny-gpt2,tiny-vit,tiny-gpt2").size(), 2u);
}

TEST(TrainBench, says_how_its_steps_were_timed) {
  const auto text = [](const char* name, int64_t steps) {
    return blocks_text(steps, block_steps(config_of(*find_workloads(name)[0]), steps));
  };
  EXPECT_EQ(text("tiny-llama", 5), "one block of 5 steps");
  EXPECT_EQ(text("tiny-llama", 15), "one block of 10 steps");
  EXPECT_EQ(text("tiny-llama", 50), "the median of 5 blocks of 10 steps");
  EXPECT_EQ(text("tiny-llama-packed", 50), "the median of 3 blocks of 16 steps");
  EXPECT_EQ(text("tiny-llama-packed", 2), "one block of 16 steps") << "one with each batch";
  const auto outcome = train_outcome(run_train_bench(tiny("tiny-llama,tiny-llama-packed")));
  EXPECT_NE(outcome.table.find("; one block of 2 steps; documents: one block of 16 steps\n"), std::string::npos)
      << outcome.table;
}

TEST(TrainBench, a_setting_that_is_wrong_for_all_is_an_error) {
  auto options = tiny("tiny-gpt2");
  options.changes = {{"train.precision", "fp9"}};
  EXPECT_THROW(run_train_bench(options), base::ConfigError);
}

TEST(TrainBench, a_trace_gives_gaps_and_a_file) {
  auto options = tiny("tiny-llama");
  options.trace = true;
  options.folder = base::Path(testing::TempDir()) / "train_trace";
  std::filesystem::remove_all(options.folder);
  const auto result = run_train_bench(options);
  ASSERT_TRUE(result.rows[0].gaps.has_value());
  EXPECT_GT(result.rows[0].gaps->busy_ms, 0);
  EXPECT_LE(result.rows[0].gaps->busy_ms, result.rows[0].gaps->window_ms);
  const auto file = options.folder / "traces" / "tiny-llama.fused.json";
  EXPECT_TRUE(base::parse_json(base::real_files().read(file), "trace").contains("traceEvents"));
  const auto spans = base::real_files().read(options.folder / "traces" / "spans" / "tiny-llama.fused.json");
  for (const char* name : {"\"step\"", "\"forward\"", "\"block model.layers.1\"", "\"update\""})
    EXPECT_NE(spans.find(name), spans.npos) << name;
}

TEST(TrainBench, results_are_written_as_table_csv_json_and_picture) {
  TrainRow ours, peer;
  ours.workload = peer.workload = "w", ours.mode = "graph", peer.mode = "torch compile";
  ours.precision = peer.precision = "bf16";
  ours.step = {0.010, 0.009, 0.011, 5}, peer.step = {0.025, 0.024, 0.026, 5};
  ours.peak = 64 << 20;
  const auto outcome = train_outcome({"NVIDIA H200", 50, {ours, peer}, {"a note"}});
  EXPECT_NE(outcome.table.find("2.50x"), std::string::npos) << outcome.table;
  EXPECT_NE(outcome.table.find("a note"), std::string::npos);
  EXPECT_NE(outcome.pictures.at(0).second.find("<svg"), std::string::npos);
  EXPECT_NE(outcome.csv.find("torch compile,bf16,25"), std::string::npos) << outcome.csv;
  const auto figures = read_figures(outcome.json, "train.json");
  ASSERT_EQ(figures.list.size(), 3u);
  EXPECT_DOUBLE_EQ(*figures.list[0].value, 10);
  EXPECT_EQ(figures.list[1].name, "w graph peak");
  EXPECT_DOUBLE_EQ(*figures.list[1].value, 64);
}

TEST(TrainBench, modes_of_peers_are_what_the_workload_has) {
  using Words = std::vector<std::string>;
  const auto rows = config_of(*find_workloads("tiny-llama")[0]);
  const auto packed = config_of(*find_workloads("tiny-llama-packed")[0]);
  const Words usual = TrainBenchOptions{}.peer_modes;
  EXPECT_EQ(peer_modes(rows, usual), usual);
  EXPECT_EQ(peer_modes(rows, {"compile", "compile+packed", "compile+padded"}), Words{"compile"});
  EXPECT_EQ(peer_modes(packed, usual), (Words{"eager+packed", "eager+padded", "compile+packed", "compile+padded"}));
  EXPECT_EQ(peer_modes(packed, {"compile+packed"}), Words{"compile+packed"});
  EXPECT_THROW(check_peers(packed, {"compile+graphs"}), base::ConfigError);
}

TEST(TrainBench, peers_adapt_all_linear_layers_or_none) {
  const auto& workload = *find_workloads("tiny-llama-lora")[0];
  check_peers(config_of(workload), {"eager"});
  for (const Changes& change : {Changes{{"lora.targets", "q_proj,v_proj"}}, Changes{{"lora.dropout", "0.1"}},
                                Changes{{"lora.modules_to_save", "norm"}}})
    EXPECT_THROW(check_peers(config_of(workload, change), {"eager"}), base::ConfigError);
}

TEST(TrainBench, a_peer_says_how_it_ran) {
  TrainRow row;
  row.mode = "torch compile+padded", row.ran_as = "layer by layer, 4 micro-batches";
  EXPECT_EQ(row.mode_text(), "torch compile+padded (layer by layer, 4 micro-batches)");
}

TEST(TrainBench, peers_without_torch_are_rows_that_say_so) {
  ::setenv("HYPERION_PYTHON", "/bin/false", 1);
  const auto& workload = *find_workloads("tiny-gpt2")[0];
  const auto row = run_peer(workload, config_of(workload), "eager", 2, "cpu");
  ::unsetenv("HYPERION_PYTHON");
  EXPECT_TRUE(row.peer());
  EXPECT_NE(row.failed.find("exit code 1"), std::string::npos) << row.failed;
}

}  // namespace
}  // namespace hyperion::bench
