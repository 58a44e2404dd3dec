// `hyperion eval`.
#pragma once
#include "hyperion/cli/eval_options.h"

namespace CLI {
class App;
}

namespace hyperion::cli {

void add_eval_command(CLI::App& app, EvalOptions& options);
int eval_command(const EvalOptions& options);

}  // namespace hyperion::cli
