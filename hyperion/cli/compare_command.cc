#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/output_file.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/read_file.h"
#include "hyperion/bench/compare.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/registry.h"
#include "hyperion/cli/usage.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/report/compared_runs.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/run_settings.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

struct CompareOptions {
  std::vector<std::string> names;
  std::string fail_over, html;  // fail_over empty: 3%
  bool judge_once = false, json = false;
};

// A result's file or folder, or else the name of one among the runs, as everywhere.
std::string result_path(const std::string& name) {
  const auto among_runs = interop::runs_folder() / name;
  std::error_code error;
  const bool here = std::filesystem::is_directory(name, error) ||
                    (std::filesystem::exists(name, error) && base::Path(name).extension() == ".json");
  return !here && !interop::names_path(name) && std::filesystem::exists(among_runs, error) ? among_runs.string() : name;
}

bool is_training_run(const std::string& name) { return interop::is_run(base::real_files(), result_path(name)); }

int compare_results(const CompareOptions& options) {
  if (options.names.size() != 2 || !options.html.empty())
    throw ConfigError(options.html.empty()
                          ? format("results of a bench are compared by two, and there are {}", options.names.size())
                          : "--html draws the curves of training runs, and these are none",
                      "name two results, or runs: `hyperion runs ls` lists them");
  std::error_code error;
  for (const auto& name : options.names)
    if (base::Path(name).extension() != ".json" && !std::filesystem::exists(result_path(name), error))
      interop::find_run(base::real_files(), name);  // says what there is
  const double fail_over = bench::part_of(options.fail_over.empty() ? "3%" : options.fail_over);
  const auto result = bench::compare(bench::open_figures(result_path(options.names[0])),
                                     bench::open_figures(result_path(options.names[1])), fail_over, options.judge_once);
  const auto text =
      options.json ? bench::comparison_json(result, fail_over) : bench::comparison_table(result, fail_over);
  std::printf("%s", text.c_str());
  return result.regressions() > 0 ? 1 : 0;
}

report::ComparedRun read_run(base::FileSystem& files, const base::Path& path) {
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
  for (const auto& setting : settings.all()) run.settings.emplace_back(setting.name(), setting.text());
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

std::string compared_text(const report::ComparedRuns& runs) {
  const auto shown = [](report::TextTable rows) {
    for (auto& row : rows)
      for (auto& cell : row) cell = base::printable(cell);
    return bench::aligned(rows);
  };
  const auto settings = report::differing_settings(runs), validations = report::compared_validations(runs);
  std::string text = settings.size() > 1 ? "settings that differ\n" + shown(settings) : "all settings are the same\n";
  text += "\nwhat came of them\n" + shown(report::compared_figures(runs));
  text += "\ntraining loss, its mean since the row above\n" + shown(report::compared_training(runs));
  if (validations.size() > 1) text += "\nvalidation loss\n" + shown(validations);
  return text;
}

int compare_runs(const CompareOptions& options) {
  if (!options.fail_over.empty() || options.judge_once)
    throw ConfigError(format("{} judges results of a bench, and these are training runs",
                             options.judge_once ? "--judge-once" : "--fail-over"),
                      "leave it out");
  auto& files = base::real_files();
  if (!options.html.empty()) base::output_file(options.html, ".html");  // before anything is read
  report::ComparedRuns runs;
  for (const auto& name : options.names) {
    const base::Path path = interop::find_run(files, name);
    for (const auto& run : runs)
      if (std::filesystem::equivalent(run.record.folder, path))
        throw ConfigError(format("{} is named twice", path.string()), "name another run beside it");
    runs.push_back(read_run(files, path));
  }
  tell_apart(runs);
  std::printf("%s", (options.json ? report::compared_json(runs) : compared_text(runs)).c_str());
  if (options.html.empty()) return 0;
  base::write_atomically(files, base::output_file(options.html, ".html"), report::compared_page(runs));
  if (!options.json) std::printf("\npage: %s\n", options.html.c_str());
  return 0;
}

int compare_command(const CompareOptions& options) {
  if (options.names.size() < 2)
    throw ConfigError(format("there is nothing to compare {} with", options.names.front()),
                      "name another run, or another result of the same bench");
  const bool runs = std::any_of(options.names.begin(), options.names.end(), is_training_run);
  return runs ? compare_runs(options) : compare_results(options);
}

}  // namespace

void add_compare_command(Commands& commands) {
  const auto add_flags = [](CLI::App* compare, CompareOptions& options) {
    compare
        ->add_option("RUN", options.names,
                     "runs by name or folder, two or more; or two results of one bench: JSON files, or their folders")
        ->required();
    compare->add_option("--html", options.html, "of runs: also write a page with their curves over each other")
        ->check(not_empty());
    compare->add_option("--fail-over", options.fail_over, "of a bench: how much worse is a regression (default 3%)");
    compare->add_flag("--judge-once", options.judge_once,
                      "of a bench: also judge figures that were timed once, as if they had no noise (default: unknown, "
                      "exit code 0)");
    compare->add_flag("--json", options.json, "as JSON");
    compare->footer(
        "\nOf a bench the exit code is 1 where the second is slower.\n\nExamples:\n  hyperion compare baseline "
        "wider --html compared.html\n  hyperion compare runs/before/train.json runs/after/train.json --fail-over 3%");
  };
  commands.add<CompareOptions>("compare", "training runs side by side; or two results of a bench", add_flags,
                               compare_command);
}

}  // namespace hyperion::cli
