#include "hyperion/command/named_results.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/run_settings.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

report::ComparedRun read_compared_run(base::FileSystem& files, const base::Path& path) {
  const auto place = train::RunFolder::join(path);
  report::ComparedRun run;
  run.name = place.name();
  const auto refuse = [&](const base::Path& file, const char* why) {
    throw ConfigError(format("run {} cannot be compared: {} {}", run.name, file.string(), why),
                      "it ended before its first step, or the file was removed");
  };
  for (const auto& file : {place.metrics(), place.model()})
    if (!files.exists(file)) refuse(file, "is not there");
  run.metrics = report::read_metrics(base::read_at_most(files, place.metrics(), report::kLongestMetrics),
                                     place.metrics().string());
  if (run.metrics.steps.empty()) refuse(place.metrics(), "holds no step");
  train::RunConfig config;
  auto settings = train::bind(config);
  train::apply_run_settings(files, path, settings);
  run.settings = base::values_of(settings);
  run.record = train::past_record(files, path);
  run.record.folder = path, run.record.name = run.name;
  run.record.status = train::RunFolder::status(run.record);
  const auto shape =
      models::config_shape(base::read_description(files, place.model()), place.model().string(), config.train.length);
  run.unit = shape.context > 0 ? "token" : "image";
  return run;
}

constexpr std::string_view kTracesAlone[] = {".htrace", ".json.gz", ".json.zst", ".pftrace",  ".perfetto-trace",
                                             ".proto",  ".sqlite",  ".db",       ".nsys-rep", ".qdrep"};

bool ends_as_trace(const std::string& path) {
  return std::any_of(std::begin(kTracesAlone), std::end(kTracesAlone),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

// JSON, told by how it begins.
bool begins_as_trace(const base::Path& path) {
  std::string first(size_t{64} << 10, '\0');
  std::ifstream in(path, std::ios::binary);
  in.read(first.data(), static_cast<std::streamsize>(first.size()));
  first.resize(static_cast<size_t>(in.gcount()));
  const size_t begin = first.find_first_not_of(" \n\r\t");
  if (begin == first.npos) return false;
  const size_t next = first.find_first_not_of(" \n\r\t", begin + 1);
  const bool list = first[begin] == '[' && next != first.npos && (first[next] == '{' || first[next] == ']');
  return list || first.find("\"traceEvents\"") != first.npos || first.find("\"schemaVersion\"") != first.npos;
}

bool is_trace_file(const base::Path& path) {
  std::error_code error;
  return ends_as_trace(path.string()) || (std::filesystem::is_regular_file(path, error) && begins_as_trace(path));
}

// Results of a bench may have traces beside them.
bool is_trace_folder(const base::Path& folder) {
  const auto files = base::real_files().list(folder);
  std::error_code error;
  const bool traces = std::filesystem::is_directory(folder / "traces", error);
  return std::none_of(files.begin(), files.end(),
                      [](const auto& file) { return file.extension() == ".json" && !is_trace_file(file); }) &&
         (traces || std::any_of(files.begin(), files.end(), is_trace_file));
}

// Runs of one name, in two folders of runs, are called by their paths.
void tell_apart(report::ComparedRuns& runs) {
  std::set<std::string> names;
  for (const auto& run : runs) names.insert(run.name);
  if (names.size() == runs.size()) return;
  for (auto& run : runs) run.name = run.record.folder.string();
}

}  // namespace

std::string result_path(const std::string& name) {
  const auto among_runs = interop::runs_folder() / name;
  std::error_code error;
  const bool here = std::filesystem::is_directory(name, error) ||
                    (std::filesystem::exists(name, error) && base::Path(name).extension() == ".json");
  return !here && !interop::names_path(name) && std::filesystem::exists(among_runs, error) ? among_runs.string() : name;
}

bool is_training_run(const std::string& name) { return interop::is_run(base::real_files(), result_path(name)); }

std::string kind_text(ResultKind kind) {
  switch (kind) {
    case ResultKind::run:
      return "a training run";
    case ResultKind::bench:
      return "a result of a bench";
    case ResultKind::trace:
      return "a trace";
  }
  return {};
}

ResultKind kind_of_result(const std::string& name) {
  if (is_training_run(name)) return ResultKind::run;
  const base::Path path = result_path(name);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    if (path.extension() != ".json" && !ends_as_trace(name))
      interop::find_run(base::real_files(), name);  // says what there is
    throw ConfigError(format("there is no {}", path.string()), "name a file or folder that is there");
  }
  const bool folder = std::filesystem::is_directory(path, error);
  return (folder ? is_trace_folder(path) : is_trace_file(path)) ? ResultKind::trace : ResultKind::bench;
}

report::ComparedRuns read_compared_runs(const std::vector<std::string>& names) {
  auto& files = base::real_files();
  report::ComparedRuns runs;
  for (const auto& name : names) {
    const base::Path path = interop::find_run(files, name);
    for (const auto& run : runs)
      if (std::filesystem::equivalent(run.record.folder, path))
        throw ConfigError(format("{} is named twice", path.string()), "name another run beside it");
    runs.push_back(read_compared_run(files, path));
  }
  tell_apart(runs);
  return runs;
}

}  // namespace hyperion::cli
