// `hyperion bench comm`: time, algorithm bandwidth and bus bandwidth of each collective by size, over all ranks of the
// job that this process belongs to. Every result is verified.
#pragma once
#include <string>
#include <vector>

#include "hyperion/bench/outcome.h"
#include "hyperion/doctor/comm_check.h"
#include "hyperion/doctor/comm_job.h"

namespace hyperion::bench {

struct CommBenchOptions {
  std::vector<std::string> only;  // collectives; empty: all
  int64_t least = 8, most = 64 << 20, factor = 4;
  double seconds = 0.3;  // a case
};

struct CommBenchResult {
  std::string job;
  int ranks = 1;
  std::vector<doctor::CollectiveRow> rows;
  bool wrong() const;
};

CommBenchResult run_comm_bench(doctor::CommJob& job, const CommBenchOptions& options);
Outcome comm_outcome(const CommBenchResult& result);
Outcome comm_check_outcome(const doctor::CommCheckResult& result);  // of `hyperion comm-check`

std::vector<std::vector<std::string>> collective_table(const std::vector<doctor::CollectiveRow>& rows, int ranks);

}  // namespace hyperion::bench
