#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/output_file.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/compare.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/baseline.h"
#include "hyperion/command/named_results.h"
#include "hyperion/command/page_to_pdf.h"
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

constexpr double kReportThreshold = 0.05;

struct ReportOptions {
  std::vector<std::string> names, baselines;
  std::string output, to;
};

enum class ReportForm { html, md, pdf };
constexpr auto words_of(ReportForm) { return std::array{"html", "md", "pdf"}; }

// By --to, or by how the file's name ends.
ReportForm form_of(const ReportOptions& options) {
  const auto said = base::from_word<ReportForm>(options.to);
  if (options.output.empty()) return said.value_or(ReportForm::html);
  const auto ending = base::Path(options.output).extension().string();
  const auto named = base::from_word<ReportForm>(ending.empty() ? ending : ending.substr(1));
  if (!named)
    throw ConfigError(format("{} ends in none of .html, .md and .pdf", options.output),
                      "name the report so that its ending says what it is");
  if (said && *said != *named)
    throw ConfigError(format("--to {} and --output {} say two things", options.to, options.output),
                      "leave one of them out");
  return *named;
}

// Of one run, where no other file is named: its own page, in its folder.
int report_run(const std::string& name, ReportForm form) {
  const auto run = train::RunFolder::join(interop::find_run(base::real_files(), name));
  const auto chromium = form == ReportForm::pdf ? find_chromium() : base::Path();  // before any work
  write_run_page(run, train::RunFolder::in_use(run.path()));
  auto written = run.report();
  if (form == ReportForm::pdf) {
    written.replace_extension(".pdf");
    write_pdf(chromium, base::real_files().read(run.report()), written);
  }
  std::printf("report: %s\n", written.c_str());
  return 0;
}

ResultKind kind_of_report(const std::string& name) {
  const auto kind = kind_of_result(name);
  if (kind == ResultKind::trace)
    throw ConfigError(format("{} is a trace: a report is over runs and results of benches", name),
                      "hyperion trace analyze TRACES --html page.html makes the page of traces");
  return kind;
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

// What became of the figures of a result since each baseline of its bench.
void add_regressions(report::Document& document, const std::string& path, const bench::Figures& figures,
                     std::vector<Baseline>& left, const std::vector<Baseline>& baselines) {
  for (const auto& baseline : baselines) {
    if (baseline.figures.bench != figures.bench) continue;
    const auto found = check_against(baseline, figures, path, kReportThreshold, /*judge_once=*/false);
    report::DocumentSection section{
        .heading = format("{} against baseline {}", path, baseline.name),
        .rows = regression_table(found),
        .sentences = {format("The baseline was measured {}; {}.", measured_text(baseline.figures),
                             regression_sentence(found, kReportThreshold))}};
    section.sentences.insert(section.sentences.end(), found.notes.begin(), found.notes.end());
    document.sections.push_back(std::move(section));
    std::erase_if(left, [&](const auto& other) { return other.name == baseline.name; });
  }
}

base::Path default_output(const ReportOptions& options, ReportForm form) {
  const std::string ending = base::word_of(form);
  if (options.names.size() == 1 && is_training_run(options.names[0]))
    return interop::find_run(base::real_files(), options.names[0]) / ("report." + ending);
  const auto runs = interop::runs_folder();
  base::real_files().create_folders(runs);
  return runs / format("report-{}.{}", base::file_stamp(base::real_clock().unix_seconds()), ending);
}

int report_all(const ReportOptions& options, ReportForm form) {
  const auto chromium = form == ReportForm::pdf ? find_chromium() : base::Path();
  const auto output =
      base::output_file(options.output.empty() ? default_output(options, form) : base::Path(options.output));
  std::vector<std::string> runs, results;
  for (const auto& name : options.names) (kind_of_report(name) == ResultKind::run ? runs : results).push_back(name);
  report::Document document;
  document.lead = format("{} {}, {} {} of benches; made {}.", runs.size(),
                         runs.size() == 1 ? "training run" : "training runs", results.size(),
                         results.size() == 1 ? "result" : "results", base::utc_text(base::real_clock().unix_seconds()));
  for (const auto& name : options.names) document.title += (document.title.empty() ? "" : ", ") + name;
  if (!runs.empty()) document.sections = report::compared_sections(read_compared_runs(runs));
  std::vector<Baseline> baselines;
  for (const auto& name : options.baselines) baselines.push_back(open_baseline(baselines_folder(), name));
  auto unused = baselines;
  for (const auto& name : results) {
    const auto figures = bench::open_figures(result_path(name));
    document.sections.push_back(section_of(name, figures));
    add_regressions(document, name, figures, unused, baselines);
  }
  for (const auto& baseline : unused)
    throw ConfigError(
        format("baseline {} is of `bench {}`, and none of the results is", baseline.name, baseline.figures.bench),
        "name a result of that bench too, or leave the baseline out");
  if (form == ReportForm::pdf)
    write_pdf(chromium, report::document_page(document), output);
  else
    base::write_atomically(
        base::real_files(), output,
        form == ReportForm::md ? report::document_markdown(document) : report::document_page(document));
  std::printf("report: %s\n", output.c_str());
  return 0;
}

int report_command(const ReportOptions& options) {
  const auto form = form_of(options);
  const bool one_run = options.names.size() == 1 && options.output.empty() && options.baselines.empty();
  if (one_run && form != ReportForm::md && kind_of_report(options.names[0]) == ResultKind::run)
    return report_run(options.names[0], form);
  if (options.output.empty() && options.to.empty())
    throw ConfigError("a report of several needs to know what to be",
                      "add --to html, md or pdf; or --output report.html");
  return report_all(options, form);
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
        report->add_option("--output", options.output, "one report of all that is named: a file .html, .md or .pdf")
            ->check(not_empty());
        report
            ->add_option(
                "--to", options.to,
                "html, md or pdf (printed by Chromium); where --output names no file it goes into the run's folder, a "
                "report of several beside the runs")
            ->check(one_word_of<ReportForm>());
        report
            ->add_option("--baseline", options.baselines,
                         "also what became of the results' figures since this baseline (`hyperion bench baseline "
                         "save`); may be given again")
            ->allow_extra_args(false);
        report->footer(
            "\nExamples:\n  hyperion report quickstart\n  hyperion report first second runs/bench-train --output "
            "report.html\n  hyperion report quickstart --to pdf");
      },
      report_command);
}

}  // namespace hyperion::cli
