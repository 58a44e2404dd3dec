// What the commands of `trace` print.
#pragma once
#include <vector>

#include "hyperion/analysis/analysis_tables.h"
#include "hyperion/base/json.h"

namespace hyperion::cli {

void print_tables(const std::vector<analysis::Table>& tables);
void print_trace_json(const base::Json& json);

}  // namespace hyperion::cli
