// `hyperion eval MODEL... --set SET`: models side by side on one prepared set.
#pragma once
#include "hyperion/cli/eval_command.h"

namespace hyperion::cli {

constexpr int64_t kMeasuredLength = 1024;  // tokens at a time, of models that read as many

int measure_command(const EvalOptions& options);

}  // namespace hyperion::cli
