#include "hyperion/trace_formats/trace_files.h"

#include <algorithm>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/run_trace.h"
#include "hyperion/trace/trace_file.h"
#include "hyperion/trace_formats/sqlite_trace.h"

namespace hyperion::trace {
namespace {

constexpr std::string_view kTraceEndings[] = {kTraceFileEnding, ".json",    ".json.gz",
                                              ".json.zst",      ".pftrace", ".perfetto-trace"};

void add_traces(const base::Path& file, std::vector<TraceName>& found) {
  const size_t processes = is_sqlite_file(file) ? sqlite_processes(file).size() : 1;
  for (size_t process = 0; process < processes; ++process) found.push_back({file, process});
}

void refuse_report(const std::string& name) {
  if (name.ends_with(".nsys-rep") || name.ends_with(".qdrep"))
    throw base::ConfigError(base::format("{} is a report that only Nsight Systems reads", name),
                            base::format("nsys export --type sqlite {} makes a database of it", name));
}

}  // namespace

std::vector<TraceName> trace_files(const base::Path& path) {
  auto& files = base::real_files();
  std::vector<TraceName> found;
  if (!std::filesystem::is_directory(path)) {
    if (!files.exists(path))
      throw base::ConfigError(base::format("there is no trace {}", path.string()),
                              "name a trace's file, a folder of them, or a run that has traces");
    refuse_report(path.string());
    add_traces(path, found);
    return found;
  }
  for (const auto& recorded : newest_recording(path)) found.push_back({recorded});
  if (!found.empty()) return found;
  const auto within = std::filesystem::is_directory(path / "traces") ? path / "traces" : path;
  for (const auto& file : files.list(within)) {
    const auto name = file.filename().string();
    if (name.starts_with('.') || !std::filesystem::is_regular_file(file)) continue;
    const bool known = std::any_of(std::begin(kTraceEndings), std::end(kTraceEndings),
                                   [&](std::string_view ending) { return name.ends_with(ending); });
    const bool database = (name.ends_with(".sqlite") || name.ends_with(".db")) && is_sqlite_file(file);
    if (known || database) add_traces(file, found);
  }
  if (found.empty())
    throw base::ConfigError(base::format("{} has no trace", within.string()),
                            "a trace's name ends with .htrace, .json, .json.gz, .json.zst, .pftrace, .perfetto-trace, "
                            ".sqlite or .db");
  return found;
}

}  // namespace hyperion::trace
