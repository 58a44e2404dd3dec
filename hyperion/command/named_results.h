// What a user names of what was measured: training runs, results of benches, and traces.
#pragma once
#include <string>
#include <vector>

#include "hyperion/report/compared_runs.h"

namespace hyperion::cli {

// A result's file or folder, or else the name of one among the runs, as everywhere.
std::string result_path(const std::string& name);
bool is_training_run(const std::string& name);

enum class ResultKind { run, bench, trace };
std::string kind_text(ResultKind kind);  // "a training run"
// Told by what lies there: a folder of results counts as one of a bench, also where it has traces too. Throws
// ConfigError with what there is where nothing does.
ResultKind kind_of_result(const std::string& name);

// Throws ConfigError where one has no step, or is named twice.
report::ComparedRuns read_compared_runs(const std::vector<std::string>& names);

}  // namespace hyperion::cli
