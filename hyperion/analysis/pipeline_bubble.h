// How long the ranks of a pipeline stand still in a step: before their first micro-batch, between two of them, and
// after their last.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "hyperion/analysis/clock_offsets.h"
#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

// A forward or backward of one micro-batch through one stage, as the program's spans tell it. On a device, from the
// first kernel that was launched in it to the end of the last.
struct StageWork {
  int64_t begin = 0, end = 0;  // nanoseconds since 1970, of the rank's clock
  int64_t stage = 0, micro_batch = 0, step = 0;
};
std::vector<StageWork> stage_work_of(const trace::Trace& trace);  // by begin

struct RankBubble {
  int64_t rank = 0;
  std::vector<int64_t> stages;                           // from the lowest
  int64_t work = 0, before = 0, between = 0, after = 0;  // nanoseconds, over all steps; together PipelineBubble::time
};

struct PipelineBubble {
  int64_t steps = 0;   // that all ranks have
  int64_t time = 0;    // nanoseconds from the first work of any rank to the last one's end, over all steps
  bool apart = false;  // clocks are not known: a rank's `before` and `after` are not told, and count as between
  std::vector<RankBubble> ranks;  // in the order given

  double percent() const;                       // of all ranks' time without work
  double percent(const RankBubble& one) const;  // of its time
  double mean_work() const;                     // nanoseconds, over all steps
  const RankBubble& longest() const;            // that works longest
};

struct RankStages {
  int64_t rank = 0;
  const std::vector<StageWork>* work = nullptr;
};
// Nothing where there are less than two stages, or ranks have no step together. `clocks`: of the same ranks.
std::optional<PipelineBubble> pipeline_bubble(const std::vector<RankStages>& ranks,
                                              const std::vector<ClockOffset>& clocks);

}  // namespace hyperion::analysis
