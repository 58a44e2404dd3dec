#include "hyperion/trace/trace_files.h"

#include <algorithm>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/trace/run_trace.h"
#include "hyperion/trace/trace_file.h"

namespace hyperion::trace {
namespace {

constexpr std::string_view kTraceEndings[] = {kTraceFileEnding, ".json",    ".json.gz",
                                              ".json.zst",      ".pftrace", ".perfetto-trace"};

}  // namespace

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
    const bool known = std::any_of(std::begin(kTraceEndings), std::end(kTraceEndings),
                                   [&](std::string_view ending) { return name.ends_with(ending); });
    if (known && !name.starts_with('.') && std::filesystem::is_regular_file(file)) found.push_back(file);
  }
  if (found.empty())
    throw base::ConfigError(
        base::format("{} has no trace", within.string()),
        "a trace's name ends with .htrace, .json, .json.gz, .json.zst, .pftrace or .perfetto-trace");
  return found;
}

}  // namespace hyperion::trace
