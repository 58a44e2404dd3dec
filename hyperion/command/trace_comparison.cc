#include "hyperion/command/trace_comparison.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/command/open_trace.h"
#include "hyperion/command/trace_output.h"

namespace hyperion::cli {
namespace {

std::vector<analysis::RankAnalysis> analyzed_ranks(const std::string& word, const TraceComparison& options) {
  std::vector<analysis::RankAnalysis> ranks;
  read_ranks({word}, options.threads,
             [&](trace::Trace&& trace) { ranks.push_back(analysis::analyze(trace, options.how)); });
  analysis::order_by_rank(ranks);
  return ranks;
}

}  // namespace

int compare_traces(const TraceComparison& options) {
  const auto before = analyzed_ranks(options.before, options), after = analyzed_ranks(options.after, options);
  for (const auto* side : {&before, &after})
    if (std::all_of(side->begin(), side->end(), [](const auto& rank) { return rank.device_events == 0; }))
      throw base::ConfigError(
          base::format("{} has no kernels to compare: {}", side == &before ? options.before : options.after,
                       analysis::without_kernels_text(side->front())),
          "record a GPU's, as train --profile and PyTorch's profiler do there");
  const auto found = analysis::diff(before, after, options.judge);
  if (options.json)
    print_trace_json(analysis::diff_json(found));
  else
    print_tables(analysis::diff_tables(found, static_cast<size_t>(options.top)));
  if (!options.json && found.regression)
    std::printf("\nslower by more than %s%%\n", base::format("{}", options.judge.percent).c_str());
  return found.regression ? 1 : 0;
}

}  // namespace hyperion::cli
