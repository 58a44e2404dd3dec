// How much of each group's communication ran with no computation beside it, and why: because other ranks had not come,
// or because it took its time.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/analysis/clock_offsets.h"
#include "hyperion/analysis/intervals.h"
#include "hyperion/analysis/pipeline_bubble.h"
#include "hyperion/base/json.h"

namespace hyperion::analysis {

// Of one rank, so that its trace need not be kept.
struct RankCommunication {
  int64_t rank = 0, steps = 1;
  RankCollectives collectives;
  Intervals compute;  // when computation ran, on the rank's clock; empty where there are no collectives
  std::vector<StageWork> stages;
};
RankCommunication communication_of(const trace::Trace& trace);

struct GroupExposure {
  std::string group, axis;
  int64_t ranks = 0, collectives = 0;  // the second: over all ranks
  int64_t time = 0, exposed = 0;       // nanoseconds, over all ranks; ranks' own steps together
  int64_t waited = 0;                  // of what is exposed: before the last rank had come, or had begun to send
};

struct JobCommunication {
  JobCollectives collectives;
  std::vector<ClockOffset> clocks;
  std::vector<GroupExposure> groups;  // the most exposed time first
  std::optional<PipelineBubble> bubble;
  int64_t steps = 1;  // over all ranks
};
JobCommunication job_communication(const std::vector<RankCommunication>& ranks);

// Times in microseconds; of a step and rank where they are sums.
base::Json communication_json(const std::vector<RankCommunication>& ranks, const JobCommunication& job);

}  // namespace hyperion::analysis
