// The kernels of two recordings beside each other: what became slower, by its own doing or with all others.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/analysis/analysis.h"
#include "hyperion/base/json.h"

namespace hyperion::analysis {

// One kernel, a step and a rank: what it took before and after.
struct DiffRow {
  std::string name;
  WorkKind kind = WorkKind::computation;
  double count_before = 0, count_after = 0;
  double before = 0, after = 0;  // microseconds
  double noise = 0;              // of the difference: a standard error, from how its calls differ among themselves
  double expected = 0;           // before, at the pace of the recording after
  bool regression = false;
  double change() const { return after - before; }
  double excess() const { return after - expected; }
};

struct TraceDiff {
  std::vector<DiffRow> kernels;            // what differs most from what was expected, beyond its noise, first
  double before = 0, after = 0;            // microseconds a step and rank, of all kernels
  double span_before = 0, span_after = 0;  // likewise, from the first begin to the last end
  // What most kernels of computation take after, by what they took before: the clock's or the power's doing. 1 where
  // they do not agree.
  double pace = 1;
  bool regression = false;  // of the span, or of a kernel, beyond the pace
};

struct DiffOptions {
  double percent = 5;  // more than that is a regression
  double share = 1;    // percent of all kernels' time before that a kernel's change must come to
};

// Where a side has no ProfilerStep, all of it counts as one step.
TraceDiff diff(const std::vector<RankAnalysis>& before, const std::vector<RankAnalysis>& after,
               const DiffOptions& options = {});
std::string pace_text(double pace);  // "all kernels take 4.0% longer, ..."; "" of 1
base::Json diff_json(const TraceDiff& diff);

}  // namespace hyperion::analysis
