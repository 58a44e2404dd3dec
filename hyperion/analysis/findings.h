// What to look at first, in words.
#pragma once
#include <string>
#include <vector>

#include "hyperion/analysis/path_report.h"
#include "hyperion/analysis/rank_time.h"

namespace hyperion::analysis {

struct Finding {
  double percent = 0;  // of a step that it concerns; 100: of all that follows
  std::string text;
};

// The largest part of a step first; what concerns less than `least` percent is left out. `report`: of `job`; may be
// null where there is only one step of one rank.
std::vector<Finding> findings(const std::vector<RankAnalysis>& ranks, const std::vector<RankTime>& times,
                              const JobCommunication& communication, const Job* job, const PathReport* report,
                              double least = 3);

}  // namespace hyperion::analysis
