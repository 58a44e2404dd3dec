#include "hyperion/bench/layouts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/json.h"
#include "hyperion/bench/figures.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/run_record.h"

namespace hyperion::bench {
namespace {

using Words = std::vector<std::string>;

TEST(Layouts, are_read_with_their_further_words) {
  const auto cases = parse_layouts(
      "dp=4; dp=2x2,zero=3,batch=8;pp=2,dp=2,schedule=interleaved,chunks=2,accumulate=4,recompute=full;dp=2,tp=2,sp;"
      "tp=2,sp=1;tp=2,sp=0");
  ASSERT_EQ(cases.size(), 6u);
  EXPECT_EQ(cases[0].layout.processes(), 4);
  EXPECT_EQ(cases[0].shown, "dp=4");
  EXPECT_TRUE(cases[0].zero.empty() && cases[0].settings.empty() && cases[0].batch == 0);
  EXPECT_EQ(cases[1].shown, "dp=2x2");
  EXPECT_EQ(cases[1].zero, "3");
  EXPECT_EQ(cases[1].batch, 8);
  EXPECT_EQ(cases[1].settings, Words{"--parallel.zero=3"});
  EXPECT_EQ(cases[2].layout.processes(), 4);
  EXPECT_EQ(cases[2].shown, "pp=2,dp=2,schedule=interleaved,chunks=2,accumulate=4,recompute=full");
  EXPECT_EQ(cases[2].settings, (Words{"--parallel.schedule=interleaved", "--parallel.chunks=2", "--train.accumulate=4",
                                      "--memory.recompute=full"}));
  for (const size_t i : {size_t{3}, size_t{4}}) {
    EXPECT_TRUE(cases[i].shown.ends_with("tp=2,sp")) << cases[i].shown;
    EXPECT_EQ(cases[i].settings, Words{"--parallel.sequence=true"});
  }
  EXPECT_EQ(cases[5].shown, "tp=2");
  EXPECT_EQ(cases[5].settings, Words{"--parallel.sequence=false"});
}

TEST(Layouts, that_cannot_be_meant_are_refused_by_the_word) {
  for (const auto& [text, said] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "is empty"},
           {"dp=4;", "is empty"},
           {"dp=4;;dp=2", "is empty"},
           {"zero=3", "names no axis"},
           {"dp=4,dp=2", "\"dp=2\" is there twice"},
           {"dp=4,zero=1,zero=1", "\"zero=1\" is there twice"},
           {"dp=0", "\"dp=0\" is not a number of processes"},
           {"dp=4,stage=3", "\"stage=3\" is neither"},
           {"dp=4,zero=4", "\"zero=4\" is no number from 0 to 3"},
           {"dp=4,zero", "\"zero\" is no number"},
           {"dp=4,batch=0", "\"batch=0\" is no number from 1"},
           {"dp=4,batch=8x", "\"batch=8x\" is no number"},
           {"dp=4,sp=2", "\"sp=2\" is no number from 0 to 1"},
           {"dp=4,recompute=some", "\"recompute=some\" is not none, selective or full"},
           {"pp=2,schedule=2f2b", "\"schedule=2f2b\" is not gpipe, 1f1b, interleaved, zb-h1, zbv or dualpipev"},
           {"pp=2,chunks=65", "\"chunks=65\" is no number from 1 to 64"},
           {"pp=2,accumulate=-1", "\"accumulate=-1\" is no number"}}) {
    try {
      parse_layouts(text);
      ADD_FAILURE() << text;
    } catch (const base::ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(said), std::string::npos) << text << ": " << error.what();
    }
  }
}

report::RankRecord rank(int64_t weights, std::map<std::string, report::RankTraffic> traffic) {
  return {weights, 0, 0, 0, 4, 2.0, std::move(traffic)};
}

TEST(Layouts, bytes_are_told_apart_by_axis_and_kind) {
  const auto axes = traffic_by_axis({rank(1, {{"weights all_gather weights", {8, 4000, 1, 0.5}},
                                              {"gradients reduce_scatter gradients", {4, 400, 0.5, 0}},
                                              {"hidden states send hidden states", {4, 80, 0.1, 0}},
                                              {"new wires broadcast something", {1, 40, 0, 0}}}),
                                     rank(1, {{"weights all_gather weights", {8, 8000, 1, 0.5}},
                                              {"hidden states receive hidden states", {4, 0, 1, 1}},
                                              {"tied weights all_reduce gradients", {4, 16, 0, 0}},
                                              {"layers all_reduce hidden states", {4, 160, 0, 0}},
                                              {"control all_gather step", {4, 8, 0, 0}},
                                              {"of one all_reduce nothing", {4, 0, 0, 0}}})});
  ASSERT_EQ(axes.size(), 5u);
  EXPECT_EQ(axes[0].axis, "dp");
  EXPECT_DOUBLE_EQ(axes[0].bytes.at("all-gather"), 1500);  // the mean of two ranks, of four steps
  EXPECT_DOUBLE_EQ(axes[0].bytes.at("reduce-scatter"), 50);
  EXPECT_DOUBLE_EQ(axes[0].under_way, (0.75 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(axes[0].waited, 0.25);
  EXPECT_EQ(axes[1].axis, "pp");
  EXPECT_DOUBLE_EQ(axes[1].bytes.at("send"), 10);
  EXPECT_DOUBLE_EQ(axes[1].bytes.at("all-reduce"), 2);
  EXPECT_DOUBLE_EQ(axes[1].waited, 0.25);
  EXPECT_EQ(axes[2].axis, "tp");
  EXPECT_DOUBLE_EQ(axes[2].bytes.at("all-reduce"), 20);
  EXPECT_EQ(axes[3].axis, "new wires");
  EXPECT_DOUBLE_EQ(axes[3].bytes.at("other"), 5);
  EXPECT_EQ(axes[4].axis, "control");
}

// Runs that were made up, in a folder of their own.
class LayoutRuns : public ::testing::Test {
 protected:
  LayoutRuns() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion-test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~LayoutRuns() override { std::filesystem::remove_all(folder_); }

  struct Made {
    std::string settings;
    std::vector<report::RankRecord> ranks;
    std::optional<double> mfu = {};
    std::string status = "complete", failure = {};
  };
  base::Path make(const std::string& name, const Made& made) {
    const auto run = folder_ / name;
    files_.create_folders(run);
    base::write_atomically(files_, run / "config.resolved.toml", made.settings);
    report::RunRecord record;
    record.name = name, record.status = made.status, record.failure = made.failure, record.seconds = 83;
    record.environment = {{"device", "CPU"}};
    report::write_run_record(files_, run, record);
    std::vector<std::string> told;
    for (size_t i = 0; i < made.ranks.size(); ++i) {
      report::MetricsWriter writer(files_, run, static_cast<int>(i), 0);
      for (int64_t step = 1; step <= 4; ++step) {
        report::StepRecord at;
        at.step = step, at.loss = 5 - 0.5 * static_cast<double>(step), at.step_ms = step > 2 ? 100 : 900;
        at.tokens = 1000, at.memory_peak = 3 << 20, at.comm_ms = 10, at.comm_total_ms = 40, at.comm_bytes = 2000;
        at.mfu = made.mfu, at.accuracy = 0.25;
        writer.write(at);
      }
      told.push_back(report::to_json(made.ranks[i]));
    }
    if (!told.empty()) report::write_ranks(files_, run, told);
    return run;
  }
  base::FileSystem& files_ = base::real_files();
  base::Path folder_;
};

TEST_F(LayoutRuns, become_rows_of_both_tables) {
  const auto ddp = rank(4 << 20, {{"gradients all_reduce gradients", {4, 8 << 20, 1, 0.5}}});
  const auto cut = rank(1 << 20, {{"weights all_gather weights", {8, 4 << 20, 1, 0.5}}});
  const auto stage = rank(2 << 20, {{"hidden states receive hidden states", {4, 0, 1, 0.3}}});
  const auto result = read_layout_runs(
      files_,
      {make("ddp", {"[train]\nbatch = 8\n", {ddp, ddp}, 0.41}),
       make("cut", {"[train]\nbatch_per_rank = 3\n[parallel]\nlayout = \"dp=2\"\nzero = 3\n[memory]\nrecompute = "
                    "\"full\"\n",
                    {cut, cut}}),
       make("staged", {"[train]\nbatch = 8\naccumulate = 4\noptimize = \"reference\"\n[parallel]\nlayout = \"pp=2\"\n"
                       "schedule = \"gpipe\"\n",
                       {stage, stage}}),
       make("broken", {"[train]\nbatch = 32\n", {}, {}, "failed", "out of memory at step 1"}), folder_ / "none"});
  ASSERT_EQ(result.rows.size(), 5u);
  EXPECT_EQ(result.device, "CPU");
  const auto& rows = result.rows;
  EXPECT_EQ(rows[0].name(), "dp=2, zero 0, fused, batch 4");
  EXPECT_EQ(rows[1].name(), "dp=2,recompute=full, zero 3, fused, batch 3");
  EXPECT_EQ(rows[2].name(), "pp=2,schedule=gpipe,accumulate=4, zero 0, reference, batch 8");
  EXPECT_DOUBLE_EQ(rows[0].figures.tokens_s, 10'000);  // the two slow steps warm up
  EXPECT_DOUBLE_EQ(rows[0].mfu.value(), 0.41);
  EXPECT_FALSE(rows[1].mfu.has_value());
  EXPECT_EQ(rows[1].figures.state, 1 << 20);
  EXPECT_DOUBLE_EQ(rows[2].bubble.value(), 0.2);
  EXPECT_DOUBLE_EQ(rows[2].waited.value(), 0.15);
  EXPECT_FALSE(rows[3].figures.failed.empty() || rows[4].figures.failed.empty());

  const auto outcome = layouts_outcome(result);
  for (const char* said : {"41.0%", "75.0%", "50.0%", "10,000", "01:23", "3.0000", "25.0%", "20.0%", "15.0%", "3.0 MiB",
                           "all-gather", "2.0 MiB", "batch 32: out of memory at step 1"})
    EXPECT_NE(outcome.table.find(said), std::string::npos) << said << "\n" << outcome.table;
  EXPECT_EQ(read_figures(outcome.json, "scaling.json").list.size(), 5u);
  const auto json = base::parse_json(outcome.json, "")["rows"];
  EXPECT_EQ(json[1]["traffic"][0]["bytes_a_step"]["all-gather"], 1 << 20);
  EXPECT_DOUBLE_EQ(json[1]["state_less"], 0.75);
  EXPECT_TRUE(json[1]["mfu"].is_null());
  EXPECT_TRUE(json[3].contains("failed"));
  EXPECT_EQ(std::count(outcome.csv.begin(), outcome.csv.end(), '\n'), 6);
  for (const auto& [name, svg] : outcome.pictures) EXPECT_TRUE(svg.starts_with("<svg")) << name;
}

TEST_F(LayoutRuns, of_before_have_no_record_of_ranks_and_say_so) {
  const auto run = make("old", {"[train]\nbatch = 32\n", {rank(4 << 20, {})}});
  files_.remove_all(run / "ranks.json");
  const auto table = layouts_outcome(read_layout_runs(files_, {run})).table;
  EXPECT_NE(table.find("not known: old"), std::string::npos) << table;
  EXPECT_EQ(table.find("sent by a rank"), std::string::npos) << table;
}

}  // namespace
}  // namespace hyperion::bench
