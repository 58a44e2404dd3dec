// `hyperion bench memory`: what each memory technique saves and costs on one workload. Every row builds the model anew
// with random weights, trains some steps on random samples, and says where the memory of a step went.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/profile/timing.h"
#include "hyperion/train/memory.h"

namespace hyperion::train {
struct RunConfig;
}

namespace hyperion::bench {

struct MemoryRow {
  std::string precision;
  train::MemoryConfig memory;
  train::MemoryReport report;
  profile::Spread step_seconds;  // of whole steps, after warm-up
  int64_t step_peak = 0;         // bytes, over whole steps; on the CPU 0
  std::string failed;            // why there are no figures; empty: there are
};

struct MemoryResult {
  std::string workload, device_name;
  std::vector<MemoryRow> rows;
};

// The recipe's model, batch and length; with [lora] also its adapter and 4-bit base. Shows a progress line.
MemoryResult run_memory_bench(const train::RunConfig& config, const std::string& workload, int64_t steps);

std::string memory_bench_table(const MemoryResult& result);  // Markdown, for the terminal and for docs alike
std::string memory_bench_json(const MemoryResult& result);

}  // namespace hyperion::bench
