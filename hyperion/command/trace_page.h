// The page of `trace analyze --html`: what is found in traces, in one file that needs nothing else.
#pragma once
#include <string>
#include <vector>

#include "hyperion/analysis/analysis.h"
#include "hyperion/analysis/exposed_communication.h"
#include "hyperion/analysis/layer_time.h"
#include "hyperion/analysis/memory_timeline.h"
#include "hyperion/analysis/timeline.h"

namespace hyperion::cli {

struct RankMemory {
  int64_t rank = 0;
  std::vector<analysis::MemoryTimeline> devices;
};

struct AnalyzedTraces {
  std::vector<analysis::RankAnalysis> ranks;               // by rank
  std::vector<analysis::RankCommunication> communication;  // likewise
  std::vector<analysis::LayerTimes> layers;                // of ranks with spans of the program
  // Of a page alone.
  std::vector<RankMemory> memory;
  std::vector<analysis::Timeline> timelines;  // with their waits; of ranks that have pieces
};

// Adds what only a page shows.
void add_for_page(AnalyzedTraces& found, trace::Trace&& trace);

// At most `top` rows of long tables. Takes the timelines out.
std::string trace_page(AnalyzedTraces& found, const analysis::JobCommunication& communication, size_t top);

}  // namespace hyperion::cli
