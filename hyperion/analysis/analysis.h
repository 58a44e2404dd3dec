// Everything that is told of a trace at once, and of the traces of a job's ranks beside each other.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "hyperion/analysis/breakdown.h"
#include "hyperion/analysis/operators.h"
#include "hyperion/base/json.h"
#include "hyperion/trace/trace.h"

namespace hyperion::analysis {

struct AnalysisOptions {
  StepOptions steps;
  int64_t short_gap = 30'000;  // nanoseconds; of idle_by_cause() and device_idle()
};

struct RankAnalysis {
  std::string path;
  int64_t rank = 0;                       // as the file says; else its place among the files
  int64_t events = 0, device_events = 0;  // the second: of those looked at
  int64_t steps = 0, left_out = 0;        // of DeviceWork
  TimeBreakdown times;
  std::vector<StreamIdle> idle;
  StreamIdle device_idle;  // of all streams together
  std::vector<KernelRow> kernels;
  std::vector<OperatorRow> operators;
};

// On up to two threads.
RankAnalysis analyze(const trace::Trace& trace, const AnalysisOptions& options = {});

// Why a rank has none.
const char* without_kernels_text(const RankAnalysis& rank);

// By rank. Throws CorruptError where two files are of one rank.
void order_by_rank(std::vector<RankAnalysis>& ranks);

// Times in microseconds, as in the files; at most `top` kernels and operators a rank.
base::Json analysis_json(const std::vector<RankAnalysis>& ranks, size_t top);

}  // namespace hyperion::analysis
