// A critical path, predictions and the communication of a job, as tables for people and as JSON.
#pragma once
#include <utility>
#include <vector>

#include "hyperion/analysis/analysis_tables.h"
#include "hyperion/analysis/critical_path.h"
#include "hyperion/analysis/exposed_communication.h"
#include "hyperion/analysis/what_if.h"

namespace hyperion::analysis {

struct Prediction {
  WhatIf what;
  double step = 0;  // nanoseconds
};

struct PathReport {
  CriticalPath path;
  PathSums sums;
  double step = 0;  // nanoseconds
  std::vector<Prediction> without;
};
PathReport path_report(const JobGraph& graph, const std::vector<WhatIf>& what_ifs);

// At most `top` rows of names and layers; segments are in the JSON alone. Times of a step, but for segments.
std::vector<Table> path_tables(const Job& job, const PathReport& report, size_t top);
base::Json path_json(const Job& job, const PathReport& report, size_t top);

// Clocks and groups; empty where there are no collectives.
std::vector<Table> communication_tables(const std::vector<RankCommunication>& ranks, const JobCommunication& job);

}  // namespace hyperion::analysis
