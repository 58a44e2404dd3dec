// What is read of a run's folder when somebody asks for it.
#pragma once
#include "hyperion/base/json.h"
#include "hyperion/dash/run_list.h"

namespace hyperion::dash {

// {"record": run.json, "report", "pipeline": whether they are there, "traces": [{"name", "bytes"}], "state": [bytes of
// each rank's weights, gradients, optimizer]}
base::Json details_of(const ShownRun& run);

// {"ranks": those that have a log, "lines": [{"time", "level", "message"}]}: the last ones of one rank's.
base::Json log_of(const ShownRun& run, int rank);

// {"evaluations": [{"step", "samples": [{"prompt", "text"}]}], "final": answers.json, "predictions": predictions.json}
base::Json answers_of(const ShownRun& run);

}  // namespace hyperion::dash
