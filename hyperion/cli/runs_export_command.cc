#include <CLI/CLI.hpp>
#include <cstdio>
#include <set>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/output_file.h"
#include "hyperion/base/read_file.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/report/metric_sinks.h"
#include "hyperion/report/metric_tables.h"
#include "hyperion/report/metric_values.h"
#include "hyperion/report/run_record.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_folder.h"

namespace hyperion::cli {
namespace {

using base::format;

struct RunsExportOptions {
  std::vector<std::string> runs;
  std::string to, output;
};

struct ExportedRun {
  report::SinkRun about;
  std::string status;
  double updated = 0;
  report::Metrics metrics;
};

ExportedRun read_run(base::FileSystem& files, const std::string& name) {
  const base::Path folder = interop::find_run(files, name);
  if (!files.exists(folder / "metrics.jsonl"))
    throw base::ConfigError(format("{} has no metrics.jsonl: no step of it was finished", folder.string()),
                            "train it, or leave it out");
  ExportedRun run;
  const auto record = report::read_run_record(files, folder);
  run.about.name = record.name;
  run.about.begun = base::unix_seconds_of(record.created).value_or(0);
  run.status = train::RunFolder::status(record);
  train::RunConfig config;
  run.about.settings = base::values_of(read_run_config(config, folder, {}));
  const auto path = folder / "metrics.jsonl";
  run.metrics = report::read_metrics(base::read_at_most(files, path, report::kLongestMetrics), path.string());
  const auto ends = report::step_ends(run.metrics.steps, run.about.begun);
  run.updated = ends.empty() ? run.about.begun : ends.back();
  return run;
}

void export_tables(base::FileSystem& files, const base::Path& output, const std::vector<ExportedRun>& runs) {
  std::string steps = report::csv_header_of_steps(), evaluations = report::csv_header_of_evaluations();
  for (const auto& run : runs) {
    for (const auto& record : run.metrics.steps) steps += report::csv_row(run.about.name, record);
    for (const auto& record : run.metrics.evaluations) evaluations += report::csv_row(run.about.name, record);
  }
  for (const auto& [name, text] : {std::pair{"steps.csv", &steps}, {"evaluations.csv", &evaluations}}) {
    const auto path = base::output_file(output / name, ".csv");
    base::write_atomically(files, path, *text);
    std::printf("%s\n", path.c_str());
  }
}

int runs_export_command(const RunsExportOptions& options) {
  auto& files = base::real_files();
  std::vector<ExportedRun> runs;
  std::set<std::string> names;
  for (const auto& name : options.runs) {
    runs.push_back(read_run(files, name));
    if (!names.insert(runs.back().about.name).second)
      throw base::ConfigError(format("two runs are called {}", runs.back().about.name),
                              "rename one (hyperion runs rename), or export them to two folders");
  }
  const base::Path output = options.output;
  files.create_folders(output);
  if (options.to == "csv") {
    export_tables(files, output, runs);
    return 0;
  }
  const auto tool = base::from_word<report::MetricTool>(options.to).value();
  for (const auto& run : runs) {
    const auto folder = tool == report::MetricTool::tensorboard ? output / run.about.name : output;
    const auto sink = report::open_sink(tool, files, folder, run.about);
    report::replay(*sink, run.metrics, run.about.begun);
    if (run.status != "running") sink->end(run.status, run.updated);
  }
  std::printf("%s: %zu %s\n%s\n", output.c_str(), runs.size(), runs.size() == 1 ? "run" : "runs",
              report::how_to_open(tool, output).c_str());
  return 0;
}

}  // namespace

void add_runs_export(Commands& runs) {
  runs.add<RunsExportOptions>(
      "export", "what runs measured, as TensorBoard, Weights & Biases, MLflow, Prometheus or a spreadsheet reads it",
      [](CLI::App* command, RunsExportOptions& options) {
        command->add_option("RUN", options.runs, "their names or folders")->required();
        command
            ->add_option("--to", options.to,
                         "tensorboard: event files; wandb: offline runs; mlflow: a file store; prometheus: text of the "
                         "newest values; csv: steps.csv and evaluations.csv")
            ->required()
            ->check(CLI::IsMember({"tensorboard", "wandb", "mlflow", "prometheus", "csv"}));
        command->add_option("--output", options.output, "folder for the files; made if need be")->required();
        command->footer(
            "\nA run in training writes these itself: --train.report_to=tensorboard,wandb (TensorBoard's by default, "
            "in "
            "runs/NAME/tb).\n\nExamples:\n  hyperion runs export first second --to mlflow --output mlruns\n  hyperion "
            "runs export first --to csv --output tables");
      },
      runs_export_command);
}

}  // namespace hyperion::cli
