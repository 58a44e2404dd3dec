#include "hyperion/command/trace_output.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/bench/outcome.h"

namespace hyperion::cli {

void print_tables(const std::vector<analysis::Table>& tables) {
  for (size_t i = 0; i < tables.size(); ++i)
    std::printf("%s%s\n%s%s%s", i == 0 ? "" : "\n", tables[i].title.c_str(),
                bench::aligned(tables[i].rows, tables[i].text_columns).c_str(), tables[i].note.c_str(),
                tables[i].note.empty() ? "" : "\n");
}

void print_trace_json(const base::Json& json) {
  std::printf("%s\n", json.dump(2, ' ', false, base::Json::error_handler_t::replace).c_str());
}

}  // namespace hyperion::cli
