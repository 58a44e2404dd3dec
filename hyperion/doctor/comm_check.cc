#include "hyperion/doctor/comm_check.h"

#include <algorithm>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::doctor {

using base::format;

constexpr int64_t kMostMessage = 4 << 20;  // enough to see a link's bandwidth

CommCheckResult run_comm_check(CommJob& job, const CommCheckOptions& options) {
  const base::OperationScope operation("comm-check");
  check_sizes(options.sizes, job.world->local_size());
  const double start = base::real_clock().seconds();
  CommProgress progress(job, "comm-check");
  CommCheckResult result{job.text(), job.hosts, {}, 0, {}, {}};
  result.rows = measure_collectives(job, collective_names(), options.sizes, options.seconds,
                                    [&](const std::string& what) { progress.show(what); });
  result.faults = wrong_texts(result.rows, job.ranks());
  if (options.pairs && job.ranks() > 1) {
    result.message = std::min(kMostMessage, *std::max_element(options.sizes.begin(), options.sizes.end()));
    result.links = measure_links({*job.group, *job.control, job.device, result.message, job.hosts, options.tolerance},
                                 [&](int64_t done, int64_t all) { progress.show(format("pairs {}/{}", done, all)); });
    const auto found = find_link_faults(result.links, job.hosts, options.tolerance);
    for (auto& text : link_fault_texts(found, result.links, job.hosts)) result.faults.push_back(std::move(text));
  }
  progress.clear();
  result.seconds = base::real_clock().seconds() - start;
  return result;
}

}  // namespace hyperion::doctor
