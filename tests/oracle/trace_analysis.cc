// Prints what is found in traces as JSON, for oracle/trace_test.py: trace_analysis [--last-step] FILE...
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string_view>

#include "hyperion/analysis/analysis.h"
#include "hyperion/base/error.h"
#include "hyperion/trace_formats/read_any_trace.h"

int main(int argc, char** argv) {
  using namespace hyperion;
  try {
    analysis::AnalysisOptions options;
    std::vector<analysis::RankAnalysis> ranks;
    for (int i = 1; i < argc; ++i) {
      if (std::string_view(argv[i]) == "--last-step")
        options.steps.include_last = true;
      else
        ranks.push_back(analysis::analyze(trace::read_any_trace({argv[i]}), options));
    }
    analysis::order_by_rank(ranks);
    std::puts(analysis::analysis_json(ranks, SIZE_MAX).dump().c_str());
  } catch (const base::Error& error) {
    std::fputs(base::error_text(error).c_str(), stderr);
    return error.exit_code();
  }
}
