// Results of benches kept under a name, to hold later ones against. A baseline is itself a result file.
#pragma once
#include <string>
#include <vector>

#include "hyperion/base/files.h"
#include "hyperion/bench/compare.h"
#include "hyperion/report/document.h"

namespace hyperion::cli {

struct Baseline {
  std::string name;
  base::Path file;
  bench::Figures figures;
};

// The folder that was given, or baselines/ among the runs.
base::Path baselines_folder(const std::string& given = {});

// Writes the figures of a result whole or not at all; returns where. Throws ConfigError where the name is taken and
// `replace` does not say it may go, and where the result has no figure.
base::Path keep_baseline(const base::Path& folder, const std::string& name, const std::string& result, bool replace);

// Throws ConfigError with what there is.
Baseline open_baseline(const base::Path& folder, const std::string& name);
std::vector<std::string> baseline_names(const base::Path& folder);

// Throws ConfigError with all that differs where figures of one say nothing of the other's: another bench, device,
// machine or setting. `result` names it.
bench::Comparison check_against(const Baseline& baseline, const bench::Figures& now, const std::string& result,
                                double threshold, bool judge_once);

report::TextTable regression_table(const bench::Comparison& comparison);  // figure, unit, baseline, now, change, ...
std::string regression_sentence(const bench::Comparison& comparison, double threshold);
std::string measured_text(const bench::Figures& figures);  // "on NVIDIA H200 by 0.1.0 (3f2a91c), 2026-11-19T20:00:00Z"

}  // namespace hyperion::cli
