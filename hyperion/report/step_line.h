// The line a run shows for a step:
// step 120/500  loss 4.991  grad 2.64  lr 3.0e-4  12.1 ms  30,768 tok/s  315 TFLOP/s  mfu 40.0%  mem 15.1 GiB  data
// 0.2%  eta 03:10
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "hyperion/report/metrics.h"

namespace hyperion::report {

// Parts that are unknown are left out. `total_steps` 0: open-ended. Memory is the peak, else what is allocated.
std::string step_line(const StepRecord& record, int64_t total_steps, std::optional<double> eta_seconds,
                      const char* rate_unit = "tok/s");

std::string rate_text(double tflops);        // 315 -> "315 TFLOP/s", 0.0853 -> "85.3 GFLOP/s"
std::string milliseconds_text(double ms);    // 12.1 -> "12.1 ms", 1530 -> "1.53 s"
std::string short_scientific(double value);  // 3e-4 -> "3.0e-4"

}  // namespace hyperion::report
