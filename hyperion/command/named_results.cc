#include "hyperion/command/named_results.h"

#include <filesystem>
#include <set>

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
