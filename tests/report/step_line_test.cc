#include "hyperion/report/step_line.h"

#include <gtest/gtest.h>

#include <limits>

namespace hyperion::report {
namespace {

StepRecord known_step() {
  StepRecord record;
  record.step = 120;
  record.loss = 4.9912;
  record.grad_norm = 2.641;
  record.lr = 3e-4;
  record.step_ms = 12.1;
  record.tokens = 372;
  record.tokens_per_s = 30767.9;
  record.tflops = 315.2;
  record.mfu = 0.4;
  record.memory_peak = 16'213'500'000;
  record.data_wait_ms = 0.0242;
  return record;
}

TEST(StepLine, says_everything_that_is_known) {
  EXPECT_EQ(
      step_line(known_step(), 500, 190),
      "step 120/500  loss 4.991  grad 2.64  lr 3.0e-4  12.1 ms  30,768 tok/s  315 TFLOP/s  mfu 40.0%  mem 15.1 GiB  "
      "data 0.2%  eta 03:10");
}

TEST(StepLine, leaves_out_what_is_unknown) {
  StepRecord record = known_step();
  record.tflops = record.mfu = std::nullopt;
  record.memory_peak = std::nullopt;
  EXPECT_EQ(step_line(record, 0, std::nullopt),
            "step 120  loss 4.991  grad 2.64  lr 3.0e-4  12.1 ms  30,768 tok/s  data 0.2%");
  record.step_ms = record.tokens_per_s = 0;
  EXPECT_EQ(step_line(record, 0, std::nullopt), "step 120  loss 4.991  grad 2.64  lr 3.0e-4");
}

TEST(StepLine, shows_allocated_memory_where_no_peak_is_known) {
  StepRecord record = known_step();
  record.memory_peak = std::nullopt;
  record.memory_allocated = 1024 * 1024;
  EXPECT_NE(step_line(record, 0, std::nullopt).find("mem 1.0 MiB"), std::string::npos);
}

TEST(StepLine, shows_a_loss_that_is_not_finite) {
  StepRecord record = known_step();
  record.loss = std::numeric_limits<double>::quiet_NaN();
  record.grad_norm = std::numeric_limits<double>::infinity();
  EXPECT_EQ(step_line(record, 500, 190).substr(0, 32), "step 120/500  loss nan  grad inf");
}

TEST(StepLine, keeps_figures_that_matter_at_every_size) {
  EXPECT_EQ(rate_text(315.2), "315 TFLOP/s");
  EXPECT_EQ(rate_text(1.254), "1.25 TFLOP/s");
  EXPECT_EQ(rate_text(0.0853), "85.3 GFLOP/s");
  EXPECT_EQ(rate_text(2.5e-5), "25.0 MFLOP/s");
  EXPECT_EQ(milliseconds_text(0.456), "0.46 ms");
  EXPECT_EQ(milliseconds_text(12.1), "12.1 ms");
  EXPECT_EQ(milliseconds_text(1530), "1.53 s");
  EXPECT_EQ(short_scientific(3e-4), "3.0e-4");
  EXPECT_EQ(short_scientific(1.5e-12), "1.5e-12");
  EXPECT_EQ(short_scientific(2e5), "2.0e5");
  EXPECT_EQ(short_scientific(1), "1.0e0");
  EXPECT_EQ(short_scientific(0), "0");
}

TEST(StepLine, writes_a_tiny_loss_with_an_exponent) {
  StepRecord record = known_step();
  record.loss = 4.2e-4;
  EXPECT_NE(step_line(record, 0, std::nullopt).find("loss 4.2e-4  "), std::string::npos);
}

}  // namespace
}  // namespace hyperion::report
