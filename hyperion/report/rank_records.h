// ranks.json: what each process of a run held, and what it sent and waited for in the steps that were counted.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::report {

// Of one kind of call, in all steps counted.
struct RankTraffic {
  int64_t calls = 0;
  int64_t bytes = 0;                // that this rank sent
  double seconds = 0, exposed = 0;  // under way; waited for
};

struct RankRecord {
  int64_t weights = 0, gradients = 0, optimizer = 0, optimizer_on_host = 0;  // bytes
  int64_t steps = 0;                                                         // that were counted
  double seconds = 0;                                                        // of those
  std::map<std::string, RankTraffic> traffic = {};  // by group, operation and caller: "weights all_gather weights"

  int64_t state() const { return weights + gradients + optimizer + optimizer_on_host; }
};

// What a process tells the first one.
std::string to_json(const RankRecord& record);
// `told`: by rank, each as `to_json` has it.
void write_ranks(base::FileSystem& files, const base::Path& run, const std::vector<std::string>& told);
// By rank; nothing where the run wrote none. Throws CorruptError where the file is not one of these.
std::optional<std::vector<RankRecord>> read_ranks(base::FileSystem& files, const base::Path& run);

}  // namespace hyperion::report
