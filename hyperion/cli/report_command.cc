#include <CLI/CLI.hpp>
#include <cstdio>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/output_file.h"
#include "hyperion/bench/compare.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/named_results.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/usage.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/report/document.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/run_report.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

struct ReportOptions {
  std::vector<std::string> names;
  std::string output;
};

int report_run(const std::string& name) {
  const auto run = train::RunFolder::join(interop::find_run(base::real_files(), name));
  write_run_page(run, train::RunFolder::in_use(run.path()));
  std::printf("report: %s\n", run.report().c_str());
  return 0;
}

report::DocumentSection section_of(const std::string& path, const bench::Figures& figures) {
  report::DocumentSection section{
      .heading = format("{}: {}", path, figures.bench),
      .rows = {{"figure", "value", "unit", "noise"}},
      .sentences = {format("On {}{}.", figures.device, bench::settings_note(figures.settings))}};
  for (const auto& figure : figures.list) {
    const bool spread = figure.value && !figure.timed_once && *figure.value != 0;
    section.rows.push_back({figure.name, figure.value ? format("{:.6g}", *figure.value) : "failed", figure.unit,
                            spread ? format("{:.1f}%", 50 * (figure.high - figure.low) / *figure.value) : ""});
  }
  return section;
}

int report_all(const ReportOptions& options) {
  const bool markdown = options.output.ends_with(".md");
  if (!markdown && !options.output.ends_with(".html"))
    throw ConfigError(format("{} ends in neither .html nor .md", options.output),
                      "name the report so that its ending says what it is");
  const auto output = base::output_file(options.output);  // before anything is read
  std::vector<std::string> runs, results;
  for (const auto& name : options.names) (is_training_run(name) ? runs : results).push_back(name);
  report::Document document;
  document.lead = format("{} {}, {} {} of benches; made {}.", runs.size(),
                         runs.size() == 1 ? "training run" : "training runs", results.size(),
                         results.size() == 1 ? "result" : "results", base::utc_text(base::real_clock().unix_seconds()));
  for (const auto& name : options.names) document.title += (document.title.empty() ? "" : ", ") + name;
  if (!runs.empty()) document.sections = report::compared_sections(read_compared_runs(runs));
  for (const auto& name : results) {
    const auto path = result_path(name);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) interop::find_run(base::real_files(), name);  // says what there is
    document.sections.push_back(section_of(name, bench::open_figures(path)));
  }
  base::write_atomically(base::real_files(), output,
                         markdown ? report::document_markdown(document) : report::document_page(document));
  std::printf("report: %s\n", output.c_str());
  return 0;
}

int report_command(const ReportOptions& options) {
  if (!options.output.empty()) return report_all(options);
  if (options.names.size() == 1) return report_run(options.names[0]);
  throw ConfigError("a report of several needs a file to go to", "add --output report.html, or report.md");
}

}  // namespace

void write_run_page(const train::RunFolder& run, bool in_use) {
  auto& files = base::real_files();
  train::RunConfig config;
  const auto settings = read_run_config(config, run.path(), {});
  if (!files.exists(run.model()))
    throw base::ConfigError(format("run {} ended before it began to train", run.name()),
                            "there is nothing to show yet");
  auto record = train::past_record(files, run.path());
  record.name = run.name();
  if (record.steps == 0) record.steps = config.train.steps;
  const bool running = record.status == "running";
  if (running && in_use) record.updated = base::utc_text(base::real_clock().unix_seconds());
  train::write_report(files, run, config, settings, record, running && !in_use);
}

void add_report_command(Commands& commands) {
  commands.add<ReportOptions>(
      "report", "make the page of a run anew, also of one that was killed; or one report of several runs and benches",
      [](CLI::App* report, ReportOptions& options) {
        report->add_option("RUN", options.names, "a run's name or folder; of a report also results of benches")
            ->required();
        report->add_option("--output", options.output, "one report of all that is named: a file .html or .md")
            ->check(not_empty());
        report->footer(
            "\nExamples:\n  hyperion report quickstart\n  hyperion report first second runs/bench-train --output "
            "report.html");
      },
      report_command);
}

}  // namespace hyperion::cli
