#include "hyperion/report/metrics.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/faulty_files.h"
#include "hyperion/base/format.h"

namespace hyperion::report {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class MetricsFiles : public ::testing::Test {
 protected:
  MetricsFiles() {
    std::string pattern = (std::filesystem::temp_directory_path() / "hyperion_metrics_XXXXXX").string();
    run_ = ::mkdtemp(pattern.data());
  }
  ~MetricsFiles() override { std::filesystem::remove_all(run_); }

  std::string read(const char* name) { return base::real_files().read(run_ / name); }
  void append(const char* name, std::string_view text) { base::real_files().open_append(run_ / name)->append(text); }
  void write_steps(int64_t keep, int64_t first, int64_t last, int rank = 0) {
    MetricsWriter writer(base::real_files(), run_, rank, keep);
    for (int64_t step = first; step <= last; ++step) writer.write(step_record(step));
  }
  static StepRecord step_record(int64_t step) {
    StepRecord record;
    record.step = step;
    record.loss = 1.0 / 3 + static_cast<double>(step);
    record.lr = 3e-4;
    record.tokens = 1024;
    return record;
  }
  std::vector<int64_t> steps() {
    std::vector<int64_t> out;
    for (const StepRecord& record : read_metrics(read("metrics.jsonl")).steps) out.push_back(record.step);
    return out;
  }

  base::Path run_;
};
using Steps = std::vector<int64_t>;

TEST_F(MetricsFiles, read_back_bit_for_bit) {
  StepRecord full{7,   0.1, 1e-300, 3e-4, 12.125, 4096, 1.0 / 7, 315.5, 0.4, 1,    2,    int64_t{1} << 60,  0.1,
                  0.2, 0.3, 0.4,    0.5,  0.6,    99,   640,     0.7,   3.5, 0.25, 0.01, "0123456789abcdef"};
  full.stopped_ms = 61.5, full.held_up = "compute of rank 3";
  full.gpu_clock = 1695.5, full.gpu_power = 698.25, full.gpu_temperature = 61, full.gpu_busy = 99;
  full.gpu_slowed = "its power limit", full.energy = 0.1;
  full.checkpoint_blocked_s = 0.25, full.checkpoint_write_s = 1.5;
  full.checkpoint_failure = "cannot write \"x\", or y: No space left on device";
  EvalRecord evaluation{7, "validation \"a\"", 0.7, 2.01, 0.9, 0.95};
  MetricsWriter writer(base::real_files(), run_, 0, 0);
  writer.write(full);
  writer.write(evaluation);
  const Metrics metrics = read_metrics(read("metrics.jsonl"));
  ASSERT_EQ(metrics.steps.size(), 1u);
  ASSERT_EQ(metrics.evaluations.size(), 1u);
  const StepRecord& step = metrics.steps[0];
  EXPECT_EQ(step.loss, full.loss);
  EXPECT_EQ(step.grad_norm, full.grad_norm);
  EXPECT_EQ(step.tokens_per_s, full.tokens_per_s);
  EXPECT_EQ(step.tflops, full.tflops);
  EXPECT_EQ(step.memory_peak, full.memory_peak);
  EXPECT_EQ(step.comm_total_ms, full.comm_total_ms);
  EXPECT_EQ(step.comm_bytes, full.comm_bytes);
  EXPECT_EQ(step.samples, full.samples);
  EXPECT_EQ(step.sample_hash, full.sample_hash);
  EXPECT_EQ(step.expert_busiest, full.expert_busiest);
  EXPECT_EQ(step.expert_idle, full.expert_idle);
  EXPECT_EQ(step.expert_dropped, full.expert_dropped);
  EXPECT_EQ(step.stopped_ms, full.stopped_ms);
  EXPECT_EQ(step.held_up, full.held_up);
  EXPECT_EQ(step.gpu_clock, full.gpu_clock);
  EXPECT_EQ(step.gpu_power, full.gpu_power);
  EXPECT_EQ(step.gpu_temperature, full.gpu_temperature);
  EXPECT_EQ(step.gpu_busy, full.gpu_busy);
  EXPECT_EQ(step.gpu_slowed, full.gpu_slowed);
  EXPECT_EQ(step.energy, full.energy);
  EXPECT_EQ(step.checkpoint_blocked_s, full.checkpoint_blocked_s);
  EXPECT_EQ(step.checkpoint_write_s, full.checkpoint_write_s);
  EXPECT_EQ(step.checkpoint_failure, full.checkpoint_failure);
  EXPECT_EQ(metrics.evaluations[0].split, evaluation.split);
  EXPECT_EQ(metrics.evaluations[0].answers_right, evaluation.answers_right);
}

TEST_F(MetricsFiles, carry_the_keys_of_the_conventions_and_null_for_the_unknown) {
  write_steps(0, 1, 1);
  const auto object = nlohmann::ordered_json::parse(read("metrics.jsonl"));
  std::string keys;
  for (const auto& [key, value] : object.items()) keys += key + " ";
  EXPECT_EQ(
      keys,
      "step loss grad_norm lr step_ms tokens tokens_per_s tflops mfu memory_allocated memory_reserved memory_peak "
      "data_wait_ms forward_ms backward_ms optimizer_ms comm_ms comm_total_ms comm_bytes samples sample_hash "
      "accuracy expert_busiest expert_idle expert_dropped stopped_ms held_up gpu_clock_mhz gpu_power_w gpu_celsius "
      "gpu_busy_percent gpu_slowed energy_j checkpoint_blocked_s checkpoint_write_s checkpoint_failure unix_s ");
  for (const char* key : {"tflops", "mfu", "memory_allocated", "memory_reserved", "memory_peak", "comm_ms",
                          "comm_total_ms", "comm_bytes"}) {
    EXPECT_TRUE(object.at(key).is_null()) << key;
  }
  const std::string csv = read("metrics.rank-0.csv");
  EXPECT_EQ(csv.substr(0, 23), "step,loss,grad_norm,lr,");
  EXPECT_NE(csv.find(",,"), std::string::npos);
}

TEST_F(MetricsFiles, mark_a_loss_that_is_not_finite) {
  {
    MetricsWriter writer(base::real_files(), run_, 0, 0);
    for (double loss : {kNan, std::numeric_limits<double>::infinity()}) {
      StepRecord record = step_record(1);
      record.loss = loss;
      writer.write(record);
    }
    writer.write(EvalRecord{1, "validation", kNan, kNan, 0.5, std::nullopt});
  }
  const std::string text = read("metrics.jsonl");
  std::string_view rest = text;
  for (int i = 0; i < 3; ++i) {
    const auto object = nlohmann::json::parse(rest.substr(0, rest.find('\n')));
    EXPECT_TRUE(object.at("loss").is_null());
    EXPECT_EQ(object.at("nonfinite"), true);
    rest.remove_prefix(rest.find('\n') + 1);
  }
  EXPECT_TRUE(std::isnan(read_metrics(text).steps[1].loss));
  EXPECT_NE(read("metrics.rank-0.csv").find("\n1,nan,"), std::string::npos);
}

TEST_F(MetricsFiles, drop_later_steps_and_evaluations_on_resume) {
  {
    MetricsWriter writer(base::real_files(), run_, 0, 0);
    for (int64_t step = 1; step <= 10; ++step) {
      writer.write(step_record(step));
      if (step % 5 == 0) writer.write(EvalRecord{step, "validation", 1, 2, 0.5, std::nullopt});
    }
  }
  write_steps(6, 7, 8);
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(read_metrics(read("metrics.jsonl")).evaluations.size(), 1u);
  const std::string csv = read("metrics.rank-0.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 9);
  EXPECT_EQ(csv.find("step,", 1), std::string::npos) << "the header stands once";
  EXPECT_EQ(csv.find("\n9,"), std::string::npos);
}

TEST_F(MetricsFiles, leave_an_undamaged_file_alone) {
  write_steps(0, 1, 3);
  const std::string before = read("metrics.jsonl");
  base::FaultyFileSystem files;
  MetricsWriter writer(files, run_, 0, 3);
  EXPECT_EQ(read("metrics.jsonl"), before);
  writer.write(step_record(4));
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4}));
}

TEST_F(MetricsFiles, drop_a_torn_last_line) {
  write_steps(0, 1, 3);
  append("metrics.jsonl", "{\"step\":4,\"loss\":1.2");
  append("metrics.rank-0.csv", "4,1.2,0.");
  EXPECT_EQ(steps(), (Steps{1, 2, 3})) << "a reader skips it";
  write_steps(9, 4, 4);
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4}));
  const std::string csv = read("metrics.rank-0.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
}

TEST_F(MetricsFiles, resume_over_a_line_that_is_no_record) {
  write_steps(0, 1, 2);
  append("metrics.jsonl", std::string(40, '\0') + "\n");
  EXPECT_THROW(read_metrics(read("metrics.jsonl")), base::CorruptError);
  write_steps(2, 3, 3);
  EXPECT_EQ(steps(), (Steps{1, 2, 3}));
}

TEST_F(MetricsFiles, tell_what_is_damaged_and_what_is_missing) {
  const auto warned = [&](int64_t keep) {
    ::testing::internal::CaptureStderr();
    write_steps(keep, keep + 1, keep);
    return ::testing::internal::GetCapturedStderr();
  };
  const auto replace = [&](const std::string& from, const std::string& to) {
    std::string text = read("metrics.jsonl");
    ASSERT_NE(text.find(from), std::string::npos) << from;
    text.replace(text.find(from), from.size(), to);
    base::write_atomically(base::real_files(), run_ / "metrics.jsonl", text);
  };
  write_steps(0, 1, 6);
  EXPECT_EQ(warned(6), "");
  replace("{\"step\":2,\"loss\"", "{\"step\":2,\"lnss\"");  // JSON still, but no record
  replace("{\"step\":4", "{\"step\":9");                    // a step that is not there yet
  replace("{\"step\":6", "{\"step\":5");                    // one that is there already
  const std::string said = warned(6);
  EXPECT_NE(said.find("metrics.jsonl: left out 2 damaged lines, which are no records"), std::string::npos) << said;
  EXPECT_NE(said.find("metrics.jsonl: 3 of the 6 steps so far have no line"), std::string::npos) << said;
  EXPECT_EQ(steps(), (Steps{1, 3, 5}));
  std::filesystem::remove(run_ / "metrics.jsonl");
  EXPECT_NE(warned(6).find("6 of the 6 steps so far have no line"), std::string::npos);
}

TEST_F(MetricsFiles, drop_the_evaluation_that_is_made_again) {
  {
    MetricsWriter writer(base::real_files(), run_, 0, 0);
    for (int64_t step = 1; step <= 4; ++step) {
      writer.write(step_record(step));
      if (step % 2 == 0) writer.write(EvalRecord{step, "validation", 1, 2, 0.5, std::nullopt});
    }
  }
  const MetricsWriter writer(base::real_files(), run_, 0, 4, 4);
  EXPECT_EQ(steps(), (Steps{1, 2, 3, 4}));
  EXPECT_EQ(read_metrics(read("metrics.jsonl")).evaluations.size(), 1u);
}

TEST_F(MetricsFiles, name_the_line_that_is_no_record) {
  try {
    read_metrics("{\"step\":1,\"split\":\"v\",\"loss\":1,\"perplexity\":2,\"token_accuracy\":0}\n{\"step\":\"two\"}\n",
                 "a/m.jsonl");
    FAIL();
  } catch (const base::CorruptError& error) {
    EXPECT_NE(std::string(error.what()).find("line 2 of a/m.jsonl"), std::string::npos) << error.what();
  }
  EXPECT_THROW(read_metrics("[]\n"), base::CorruptError);
  EXPECT_THROW(read_metrics("7\n"), base::CorruptError);
  EXPECT_TRUE(read_metrics("").steps.empty());
}

TEST_F(MetricsFiles, keep_the_old_content_when_the_rewrite_fails) {
  write_steps(0, 1, 5);
  const std::string before = read("metrics.jsonl");
  for (int64_t n = 1; n <= 4; ++n) {
    base::FaultyFileSystem files;
    files.fail_operation(n);
    try {
      MetricsWriter writer(files, run_, 0, 2);
      break;
    } catch (const base::FileError&) {
      const std::string now = read("metrics.jsonl");
      EXPECT_TRUE(now == before || steps() == (Steps{1, 2})) << n;
    }
  }
}

TEST_F(MetricsFiles, lines_that_a_full_disk_refuses_wait_and_go_with_the_next) {
  for (int64_t room = 0; room < 3000; room += 171) {
    std::filesystem::remove_all(run_);
    base::FaultyFileSystem files;
    MetricsWriter writer(files, run_, 0, 0);
    files.set_capacity(room);
    for (int64_t step = 1; step <= 5; ++step) writer.write(step_record(step));
    EXPECT_THROW(writer.flush(), base::FileError) << room;
    files.set_capacity(-1);
    writer.write(step_record(6));
    writer.flush();
    EXPECT_EQ(steps(), (Steps{1, 2, 3, 4, 5, 6})) << room;
    const std::string csv = read("metrics.rank-0.csv");
    EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7) << "a header and six rows";
  }
}

TEST_F(MetricsFiles, other_ranks_write_only_their_table) {
  {
    MetricsWriter writer(base::real_files(), run_, 3, 0);
    writer.write(step_record(1));
    writer.write(EvalRecord{1, "validation", 1, 2, 0.5, std::nullopt});
  }
  EXPECT_FALSE(base::real_files().exists(run_ / "metrics.jsonl"));
  const std::string csv = read("metrics.rank-3.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
}

TEST_F(MetricsFiles, survive_kill_9) {
  const pid_t child = ::fork();
  if (child == 0) {
    MetricsWriter writer(base::real_files(), run_, 0, 0);
    for (int64_t step = 1; step <= 50; ++step) writer.write(step_record(step));
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(steps().size(), 50u);
}

}  // namespace
}  // namespace hyperion::report
