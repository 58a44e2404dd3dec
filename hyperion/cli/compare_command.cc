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
#include "hyperion/command/named_results.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/trace_comparison.h"
#include "hyperion/command/usage.h"
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

int compare_results(const CompareOptions& options) {
  if (options.names.size() != 2 || !options.html.empty())
    throw ConfigError(options.html.empty()
                          ? format("results of a bench are compared by two, and there are {}", options.names.size())
                          : "--html draws the curves of training runs, and these are none",
                      "name two results, or runs: `hyperion runs ls` lists them");
  const double fail_over = bench::part_of(options.fail_over.empty() ? "3%" : options.fail_over);
  const auto result = bench::compare(bench::open_figures(result_path(options.names[0])),
                                     bench::open_figures(result_path(options.names[1])), fail_over, options.judge_once);
  const auto text =
      options.json ? bench::comparison_json(result, fail_over) : bench::comparison_table(result, fail_over);
  std::printf("%s", text.c_str());
  return result.regressions() > 0 ? 1 : 0;
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
  if (!options.html.empty()) base::output_file(options.html, ".html");  // before anything is read
  const auto runs = read_compared_runs(options.names);
  std::printf("%s", (options.json ? report::compared_json(runs) : compared_text(runs)).c_str());
  if (options.html.empty()) return 0;
  base::write_atomically(base::real_files(), base::output_file(options.html, ".html"), report::compared_page(runs));
  if (!options.json) std::printf("\npage: %s\n", options.html.c_str());
  return 0;
}

int compare_traces_of(const CompareOptions& options) {
  if (options.names.size() != 2 || !options.html.empty() || options.judge_once)
    throw ConfigError(!options.html.empty() ? "--html draws the curves of training runs, and these are traces"
                      : options.judge_once
                          ? "--judge-once is of results of a bench, and these are traces"
                          : format("traces are compared by two, and there are {}", options.names.size()),
                      options.names.size() != 2 ? "name two: files, or folders with a file a rank" : "leave it out");
  TraceComparison comparison{
      .before = result_path(options.names[0]), .after = result_path(options.names[1]), .json = options.json};
  if (!options.fail_over.empty()) comparison.judge.percent = 100 * bench::part_of(options.fail_over);
  return compare_traces(comparison);
}

int compare_command(const CompareOptions& options) {
  if (options.names.size() < 2)
    throw ConfigError(format("there is nothing to compare {} with", options.names.front()),
                      "name another run, another result of the same bench, or another trace");
  const auto kind = kind_of_result(options.names.front());
  for (const auto& name : options.names)
    if (const auto other = kind_of_result(name); other != kind)
      throw ConfigError(format("{} is {}, {} is {}: they cannot be compared", options.names.front(), kind_text(kind),
                               name, kind_text(other)),
                        "name things of one kind; the traces of a run are in its folder: RUN/traces");
  switch (kind) {
    case ResultKind::run:
      return compare_runs(options);
    case ResultKind::trace:
      return compare_traces_of(options);
    case ResultKind::bench:
      break;
  }
  return compare_results(options);
}

}  // namespace

void add_compare_command(Commands& commands) {
  const auto add_flags = [](CLI::App* compare, CompareOptions& options) {
    compare
        ->add_option(
            "RUN", options.names,
            "runs by name or folder, two or more; or two results of one bench: JSON files, or their folders; or two "
            "traces: files, or folders with a file a rank")
        ->required();
    compare->add_option("--html", options.html, "of runs: also write a page with their curves over each other")
        ->check(not_empty());
    compare->add_option("--fail-over", options.fail_over,
                        "how much worse is a regression, of a bench (default 3%) and of traces (default 5%)");
    compare->add_flag("--judge-once", options.judge_once,
                      "of a bench: also judge figures that were timed once, as if they had no noise (default: unknown, "
                      "exit code 0)");
    compare->add_flag("--json", options.json, "as JSON");
    compare->footer(
        "\nOf benches and traces the exit code is 1 where the second is slower. `hyperion trace diff` has more flags "
        "for "
        "traces.\n\nExamples:\n  hyperion compare baseline wider --html compared.html\n  hyperion compare "
        "runs/before/train.json runs/after/train.json --fail-over 3%\n  hyperion compare runs/before/traces "
        "runs/after/traces");
  };
  commands.add<CompareOptions>("compare", "training runs side by side; or two results of a bench, or two traces",
                               add_flags, compare_command);
}

}  // namespace hyperion::cli
