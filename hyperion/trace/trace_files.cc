#include "hyperion/trace/trace_files.h"

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/run_trace.h"
#include "hyperion/trace/trace_file.h"

namespace hyperion::trace {

std::vector<base::Path> trace_files(const base::Path& path) {
  auto& files = base::real_files();
  if (!std::filesystem::is_directory(path)) {
    if (!files.exists(path))
      throw base::ConfigError(base::format("there is no trace {}", path.string()),
                              "name a trace's file, a folder of them, or a run that has traces");
    return {path};
  }
  if (auto recorded = newest_recording(path); !recorded.empty()) return recorded;
  const auto within = std::filesystem::is_directory(path / "traces") ? path / "traces" : path;
  std::vector<base::Path> found;
  for (const auto& file : files.list(within)) {
    const auto name = file.filename().string();
    const bool known = name.ends_with(".json") || name.ends_with(".json.gz") || name.ends_with(".json.zst") ||
                       name.ends_with(kTraceFileEnding);
    if (known && !name.starts_with('.') && std::filesystem::is_regular_file(file)) found.push_back(file);
  }
  if (found.empty())
    throw base::ConfigError(base::format("{} has no trace", within.string()),
                            "a trace's name ends with .htrace, .json, .json.gz or .json.zst");
  return found;
}

}  // namespace hyperion::trace
