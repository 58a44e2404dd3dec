// Training runs side by side: the settings in which they differ, what came of each, and their curves over each other.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "hyperion/report/document.h"
#include "hyperion/report/metrics.h"
#include "hyperion/report/run_record.h"

namespace hyperion::report {

struct ComparedRun {
  std::string name;  // unlike those of the others
  RunRecord record;
  Metrics metrics;                                            // with at least one step
  std::string unit;                                           // what its steps count: "token" or "image"
  std::vector<std::pair<std::string, std::string>> settings;  // "optim.lr" and its text; the same names in every run
};
using ComparedRuns = std::vector<ComparedRun>;

TextTable differing_settings(const ComparedRuns& runs);  // a heading alone: they are the same
// Of two runs with a last column that says how the second differs.
TextTable compared_figures(const ComparedRuns& runs);
// The mean of the training losses since the row above, at up to eight steps; and the last few validation losses.
TextTable compared_training(const ComparedRuns& runs);
TextTable compared_validations(const ComparedRuns& runs);  // a heading alone: there are none

std::string compared_json(const ComparedRuns& runs);
std::vector<DocumentSection> compared_sections(const ComparedRuns& runs);  // also of one
std::string compared_page(const ComparedRuns& runs);

}  // namespace hyperion::report
