#include <cstdio>

#include "hyperion/base/files.h"
#include "hyperion/cli/commands.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/report/run_record.h"

namespace hyperion::cli {

int runs_list_command(bool json) {
  const auto records = report::list_runs(base::real_files(), interop::runs_folder());
  if (!json) {
    std::printf("%s", report::runs_table(records).c_str());
    return 0;
  }
  std::printf("[");
  for (size_t i = 0; i < records.size(); ++i)
    std::printf("%s%s", i == 0 ? "\n" : ",\n", report::to_json(records[i]).c_str());
  std::printf("]\n");
  return 0;
}

int runs_show_command(const std::string& run, bool json) {
  auto& files = base::real_files();
  const auto record = report::read_run_record(files, interop::find_run(files, run));
  std::printf("%s", json ? report::to_json(record).c_str() : report::run_text(record).c_str());
  return 0;
}

}  // namespace hyperion::cli
