// What somebody asks of a run that is under way: to trace its next steps. A file in the run's folder, which the run
// takes away when it has read it.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/profile/trace_plan.h"

namespace hyperion::profile {

struct TraceRequest {
  static constexpr int64_t kMostSteps = 1000, kMostRank = 62;
  int64_t steps = 3;
  std::vector<int64_t> ranks = {};  // empty: all
  bool memory = false;              // with all that is allocated

  // As numbers that travel: a bit a rank, all bits for all of them.
  int64_t mask() const;
  static bool asks(int64_t mask, int64_t rank) { return mask == -1 || (rank <= kMostRank && (mask >> rank & 1) != 0); }
};

void ask_for_trace(base::FileSystem& files, const base::Path& run, const TraceRequest& request);
bool trace_is_asked(base::FileSystem& files, const base::Path& run);
void withdraw_request(base::FileSystem& files, const base::Path& run);
// What became of it: the first step that is traced, or why none is. The run says so, who asked reads it.
struct TraceAnswer {
  int64_t first = 0;
  std::string refused = {};
};
// Of a run with these ranks, whose own plan goes first: from step `next` on, after one of warm-up, up to its last.
TraceAnswer answer_to(const TraceRequest& asked, const TracePlan& own, int64_t next, int64_t last, int64_t ranks);
void answer_request(base::FileSystem& files, const base::Path& run, const TraceAnswer& answer);
std::optional<TraceAnswer> take_answer(base::FileSystem& files, const base::Path& run);

// What was asked, once. Nothing and a warning where the file is no request.
std::optional<TraceRequest> take_request(base::FileSystem& files, const base::Path& run);

}  // namespace hyperion::profile
