#include "hyperion/bench/comm.h"

#include <algorithm>

#include "hyperion/base/error.h"

namespace hyperion::bench {

bool CommBenchResult::wrong() const {
  return std::any_of(rows.begin(), rows.end(), [](const doctor::CollectiveRow& row) { return row.all_wrong() > 0; });
}

CommBenchResult run_comm_bench(doctor::CommJob& job, const CommBenchOptions& options) {
  const base::OperationScope operation("bench.comm");
  std::vector<int64_t> sizes;
  for (int64_t bytes = options.least; bytes <= options.most; bytes *= options.factor) sizes.push_back(bytes);
  doctor::check_sizes(sizes, job.world->local_size());
  const auto& names = options.only.empty() ? doctor::collective_names() : options.only;
  doctor::CommProgress progress(job, "bench comm");
  CommBenchResult result{job.text(), job.ranks(), {}};
  result.rows = doctor::measure_collectives(job, names, sizes, options.seconds,
                                            [&](const std::string& what) { progress.show(what); });
  progress.clear();
  return result;
}

}  // namespace hyperion::bench
