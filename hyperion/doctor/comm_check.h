// `hyperion comm-check`: before a big job, every rank verifies the result of each collective, and times them all
// together and pair by pair; what is wrong or slow is named.
#pragma once
#include <string>
#include <vector>

#include "hyperion/doctor/comm_job.h"
#include "hyperion/doctor/links.h"

namespace hyperion::doctor {

struct CommCheckOptions {
  std::vector<int64_t> sizes = {1 << 10, 64 << 10, 1 << 20, 16 << 20};
  double seconds = 0.05;  // a case
  double tolerance = 3;   // times slower than the usual link is slow
  bool pairs = true;
};

struct CommCheckResult {
  std::string job;
  std::vector<std::string> hosts;  // by rank
  std::vector<CollectiveRow> rows;
  int64_t message = 0;  // bytes of a pair's messages
  std::vector<Link> links;
  std::vector<std::string> faults;  // a line each; empty: all is well
  double seconds = 0;               // that it took
};

// The same result on all ranks. Throws ConfigError for sizes that cannot be meant, and Error that names operation and
// ranks where one does not answer.
CommCheckResult run_comm_check(CommJob& job, const CommCheckOptions& options);

}  // namespace hyperion::doctor
