// The numbers of a record under the names that other tools show them by, in groups: "train/loss", "gpu/power_w",
// "validation/perplexity".
#pragma once
#include <string>
#include <vector>

#include "hyperion/report/metric_records.h"

namespace hyperion::report {

struct NamedValue {
  std::string name;
  double value = 0;
};

// What is unknown, and what is no number, is left out; the step too.
std::vector<NamedValue> named_values(const StepRecord& record);
std::vector<NamedValue> named_values(const EvalRecord& record);

// When each step ended, in seconds since 1970: as the records say it, or, of runs of before that, as long after `begun`
// as the steps took.
std::vector<double> step_ends(const std::vector<StepRecord>& steps, double begun);

}  // namespace hyperion::report
