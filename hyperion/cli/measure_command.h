// `hyperion eval MODEL... --set SET`: models side by side on one prepared set.
#pragma once
#include "hyperion/cli/eval_options.h"

namespace hyperion::cli {

constexpr int64_t kMeasuredLength = 1024;  // tokens at a time, of models that read as many

// Throws Error, as `generate` does for such scores, where the loss of `which` model is not finite.
void expect_finite_loss(const std::string& which, double loss);

int measure_command(const EvalOptions& options);

}  // namespace hyperion::cli
