#include "hyperion/report/metric_sinks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>

#include "hyperion/base/crc32.h"
#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/format.h"
#include "hyperion/report/metric_tables.h"
#include "hyperion/report/metric_values.h"
#include "hyperion/report/prometheus.h"

namespace hyperion::report {
namespace {

class MetricSinkFiles : public ::testing::Test {
 protected:
  MetricSinkFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion_sinks_XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
  }
  ~MetricSinkFiles() override { std::filesystem::remove_all(folder_); }

  std::vector<base::Path> files_in(const base::Path& folder) {
    std::vector<base::Path> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) found.push_back(entry.path());
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string only_file() {
    const auto found = files_in(folder_);
    return found.size() == 1 ? base::real_files().read(found[0]) : base::format("{} files", found.size());
  }
  static SinkRun some_run(std::vector<std::pair<std::string, std::string>> settings = {}) {
    return {.name = "first", .begun = 1763523600, .settings = std::move(settings)};
  }
  static StepRecord step_record(int64_t step) {
    StepRecord record;
    record.step = step;
    record.loss = 1.0 / static_cast<double>(step);
    record.step_ms = 250;
    record.tokens = 1000;
    return record;
  }

  base::Path folder_;
};

uint32_t little_endian_32(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

// The records of a TFRecord file, each with both of its checksums verified.
std::vector<std::string> tf_records(const std::string& bytes) {
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    const size_t size = little_endian_32(bytes, at);
    EXPECT_EQ(little_endian_32(bytes, at + 8),
              base::masked_crc(base::crc32<base::kCrcCastagnoli>(bytes.substr(at, 8))));
    records.push_back(bytes.substr(at + 12, size));
    EXPECT_EQ(little_endian_32(bytes, at + 12 + size),
              base::masked_crc(base::crc32<base::kCrcCastagnoli>(records.back())));
    at += size + 16;
  }
  return records;
}

// The records of a log of LevelDB, put together again, each piece's checksum verified.
std::vector<std::string> log_records(const std::string& bytes) {
  std::vector<std::string> records;
  std::string pending;
  for (size_t at = 7; at < bytes.size();) {
    if (const size_t left = 32768 - at % 32768; left < 7) {
      EXPECT_EQ(bytes.substr(at, left), std::string(std::min(left, bytes.size() - at), '\0'));
      at += left;
      continue;
    }
    const size_t size = little_endian_32(bytes, at + 4) & 0xFFFF;
    const char kind = bytes.at(at + 6);
    EXPECT_LE(at % 32768 + 7 + size, 32768u);
    EXPECT_EQ(little_endian_32(bytes, at), base::crc32<base::kCrcIeee>(bytes.substr(at + 6, size + 1)));
    EXPECT_EQ(pending.empty(), kind == 1 || kind == 2);
    pending += bytes.substr(at + 7, size);
    if (kind == 1 || kind == 4) records.push_back(std::exchange(pending, ""));
    at += 7 + size;
  }
  EXPECT_TRUE(pending.empty());
  return records;
}

TEST(Crc32, is_that_of_the_check_values) {
  EXPECT_EQ(base::crc32<base::kCrcIeee>("123456789"), 0xCBF43926u);
  EXPECT_EQ(base::crc32<base::kCrcCastagnoli>("123456789"), 0xE3069283u);
  EXPECT_EQ(base::crc32<base::kCrcCastagnoli>(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(base::masked_crc(0), 0xA282EAD8u);
}

TEST(MetricValues, are_named_in_groups_and_leave_out_what_is_unknown) {
  StepRecord record;
  record.step = 3, record.loss = 2, record.memory_peak = 5, record.gpu_power = 700.5, record.comm_ms = 1;
  record.sample_hash = "0123456789abcdef", record.held_up = "compute of rank 3";
  std::map<std::string, double> values;
  for (const auto& [name, value] : named_values(record)) values[name] = value;
  EXPECT_EQ(values.at("train/loss"), 2);
  EXPECT_EQ(values.at("memory/peak"), 5);
  EXPECT_EQ(values.at("gpu/power_w"), 700.5);
  EXPECT_EQ(values.at("comm/ms"), 1);
  EXPECT_TRUE(values.contains("time/step_ms") && values.contains("speed/tokens_per_s"));
  for (const char* left_out : {"train/step", "speed/mfu", "train/sample_hash", "train/held_up", "train/unix_s"})
    EXPECT_FALSE(values.contains(left_out)) << left_out;
  EXPECT_EQ(named_values(EvalRecord{3, "validation", 0.5}).front().name, "validation/loss");
  EXPECT_EQ(named_values(EvalRecord{3, "training", 0.5}).front().name, "epoch/loss");
}

TEST(MetricValues, know_when_steps_ended_of_runs_that_did_not_write_it_down) {
  std::vector<StepRecord> steps(3);
  for (auto& step : steps) step.step_ms = 500;
  steps[1].unix_s = 200;
  EXPECT_EQ(step_ends(steps, 100), (std::vector<double>{100.5, 200, 200.5}));
}

TEST(MetricTools, refuse_what_is_none) {
  EXPECT_EQ(metric_tools({"wandb", "tensorboard"}, "x"),
            (std::vector<MetricTool>{MetricTool::wandb, MetricTool::tensorboard}));
  EXPECT_TRUE(metric_tools({"none"}, "x").empty() && metric_tools({}, "x").empty());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"clearml"}, {"none", "wandb"}, {"wandb", "wandb"}})
    EXPECT_THROW(metric_tools(words, "train.report_to"), base::ConfigError) << words[0];
}

TEST_F(MetricSinkFiles, of_tensorboard_hold_an_event_a_record_and_take_the_place_of_older_ones) {
  Metrics metrics;
  for (int64_t step = 1; step <= 3; ++step) metrics.steps.push_back(step_record(step));
  metrics.evaluations.push_back({2, "validation", 0.5});
  for (int times = 0; times < 2; ++times) {
    const auto sink = open_sink(MetricTool::tensorboard, base::real_files(), folder_, some_run({{"train.batch", "8"}}));
    replay(*sink, metrics, 1763523600);
  }
  base::real_files().create(folder_ / "notes.txt")->append("mine");
  const auto files = files_in(folder_);
  ASSERT_EQ(files.size(), 2u);
  const auto records = tf_records(base::real_files().read(files[0]));
  ASSERT_EQ(records.size(), 7u);  // the version, the session's start, the settings, three steps, a validation
  EXPECT_NE(records[0].find("brain.Event:2"), std::string::npos);
  EXPECT_NE(records[2].find("| train.batch | `8` |"), std::string::npos);
  EXPECT_NE(records[5].find("validation/loss"), std::string::npos);  // before step 3
  EXPECT_EQ(records[6].find("validation/loss"), std::string::npos);
}

TEST_F(MetricSinkFiles, of_wandb_are_a_log_of_leveldb_whose_records_are_cut_at_blocks) {
  {
    const auto run = some_run({{"data.path", "\"" + std::string(100'000, 'x') + "\""}, {"optim.lr", "1e-3"}});
    const auto sink = open_sink(MetricTool::wandb, base::real_files(), folder_, run);
    for (int64_t step = 1; step <= 500; ++step) sink->write(step_record(step), 1763523600.5);
    sink->end("complete", 1763523700);
  }
  const std::string bytes = only_file();
  EXPECT_EQ(bytes.substr(0, 7), std::string(":W&B\xE1\xBE\0", 7));
  const auto records = log_records(bytes);
  ASSERT_EQ(records.size(), 2 + 2 * 500 + 1u);  // a header, the run, each step with the summary so far, the exit
  EXPECT_GT(records[1].size(), 100'000u);
  EXPECT_NE(records[2].find("train/loss"), std::string::npos);
}

TEST_F(MetricSinkFiles, of_wandb_have_one_row_a_step_with_its_validation_in_it) {
  {
    const auto sink = open_sink(MetricTool::wandb, base::real_files(), folder_, some_run());
    sink->write(step_record(1), 1);
    sink->write(EvalRecord{1, "validation", 0.5}, 2);
    sink->write(step_record(2), 3);
  }  // killed: no end
  const auto records = log_records(only_file());
  ASSERT_EQ(records.size(), 2 + 2 * 2u);
  EXPECT_NE(records[2].find("train/loss"), std::string::npos);
  EXPECT_NE(records[2].find("validation/loss"), std::string::npos);
  EXPECT_EQ(records[4].find("validation/loss"), std::string::npos);
}

TEST_F(MetricSinkFiles, of_mlflow_are_written_anew_for_the_same_run_and_beside_other_runs) {
  for (const char* name : {"first", "second", "first"}) {
    auto run = some_run({{"train.batch", "8"}});
    run.name = name;
    const auto sink = open_sink(MetricTool::mlflow, base::real_files(), folder_, run);
    sink->write(step_record(1), 1763523600.25);
    sink->end("failed", 1763523700);
  }
  int64_t losses = 0;
  for (const auto& file : files_in(folder_)) {
    if (file.filename() == "loss") {
      EXPECT_EQ(base::real_files().read(file), "1763523600250 1 1\n");
      ++losses;
    }
    if (file.filename() == "meta.yaml" && file.parent_path().filename() != "1") {
      EXPECT_NE(base::real_files().read(file).find("status: 4\n"), std::string::npos);
    }
  }
  EXPECT_EQ(losses, 2);
}

TEST_F(MetricSinkFiles, that_cannot_be_written_are_told_once_and_the_others_go_on) {
  base::FaultyFileSystem full;
  MetricSinks sinks;
  sinks.open(MetricTool::tensorboard, full, folder_ / "full", some_run(), {});
  sinks.open(MetricTool::mlflow, base::real_files(), folder_ / "well", some_run(), {});
  full.set_capacity(0);
  ::testing::internal::CaptureStderr();
  for (int64_t step = 1; step <= 3; ++step) sinks.write(step_record(step));
  const std::string told = ::testing::internal::GetCapturedStderr();
  const size_t at = told.find("nothing more is written for tensorboard");
  EXPECT_NE(at, std::string::npos) << told;
  EXPECT_EQ(told.find("nothing more", at + 1), std::string::npos) << told;
  size_t lines = 0;
  for (const auto& file : files_in(folder_ / "well"))
    if (file.filename() == "loss") lines = std::string_view(base::real_files().read(file)).size();
  EXPECT_GT(lines, 20u);
}

TEST(PrometheusText, has_base_units_and_escapes_what_a_label_may_not_hold) {
  NewestMetrics newest;
  newest.run = "a \"b\"\\\n";
  StepRecord step;
  step.step = 5, step.step_ms = 250, step.tokens = 1000, step.memory_peak = 4096, step.gpu_clock = 1500;
  newest.add(step);
  newest.add(step);
  newest.add(EvalRecord{5, "validation", std::numeric_limits<double>::quiet_NaN()});
  const std::string text = prometheus_text(newest);
  const auto has = [&](const std::string& line) { return text.find(line + "\n") != std::string::npos; };
  const std::string run = "run=\"a \\\"b\\\"\\\\\\n\"";
  EXPECT_TRUE(has("# TYPE hyperion_step_duration_seconds gauge")) << text;
  EXPECT_TRUE(has("hyperion_step_duration_seconds{" + run + "} 0.25")) << text;
  EXPECT_TRUE(has("hyperion_train_tokens_total{" + run + "} 2000")) << text;
  EXPECT_TRUE(has("hyperion_memory_bytes{" + run + ",kind=\"peak\"} 4096")) << text;
  EXPECT_TRUE(has("hyperion_gpu_clock_hertz{" + run + "} 1500000000")) << text;
  EXPECT_TRUE(has("hyperion_evaluation_loss{" + run + ",split=\"validation\"} NaN")) << text;
  EXPECT_TRUE(has("hyperion_run_info{" + run + ",status=\"running\"} 1")) << text;
  EXPECT_EQ(text.find("hyperion_gpu_power_watts"), std::string::npos);
}

TEST(MetricTables, quote_what_a_comma_would_cut) {
  StepRecord record;
  record.held_up = "compute of rank 3, \"slow\"";
  const std::string row = csv_row("a,b", record), header = csv_header_of_steps();
  EXPECT_TRUE(row.starts_with("\"a,b\",0,")) << row;
  EXPECT_NE(row.find(",\"compute of rank 3, \"\"slow\"\"\","), std::string::npos) << row;
  EXPECT_TRUE(header.starts_with("run,step,loss,")) << header;
}

}  // namespace
}  // namespace hyperion::report
