// Steps and evaluations of runs as tables of CSV, the run's name first, for a spreadsheet or a data frame.
#pragma once
#include <string>
#include <vector>

#include "hyperion/report/metric_records.h"

namespace hyperion::report {

std::string csv_header_of_steps();
std::string csv_header_of_evaluations();
std::string csv_row(const std::string& run, const StepRecord& record);
std::string csv_row(const std::string& run, const EvalRecord& record);

}  // namespace hyperion::report
