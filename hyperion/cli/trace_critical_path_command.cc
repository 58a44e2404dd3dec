#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/analysis/path_report.h"
#include "hyperion/analysis/waits.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/open_trace.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/trace_output.h"
#include "hyperion/command/usage.h"

namespace hyperion::cli {
namespace {

struct CriticalPathOptions {
  std::vector<std::string> traces, what_ifs;
  int64_t top = 20, threads = 0;
  bool json = false;
};

int critical_path_command(const CriticalPathOptions& options) {
  std::vector<analysis::Timeline> ranks;
  read_ranks(options.traces, options.threads, [&](trace::Trace&& trace) {
    ranks.push_back(analysis::timeline_of(std::move(trace)));
    analysis::find_waits(ranks.back());
  });
  const auto job = analysis::make_job(std::move(ranks));
  std::vector<analysis::WhatIf> what_ifs;
  for (const auto& words : options.what_ifs) what_ifs.push_back(analysis::what_if_of(words, job));
  const analysis::JobGraph graph(job);
  const auto report = analysis::path_report(graph, what_ifs.empty() ? analysis::usual_what_ifs(job) : what_ifs);
  const auto top = static_cast<size_t>(options.top);
  options.json ? print_trace_json(analysis::path_json(job, report, top))
               : print_tables(analysis::path_tables(job, report, top));
  return 0;
}

}  // namespace

void add_trace_critical_path(Commands& trace) {
  trace.add<CriticalPathOptions>(
      "critical-path", "what decided how long the steps took, over all ranks, and how long they would take without it",
      [](CLI::App* command, CriticalPathOptions& options) {
        command->add_option("TRACES", options.traces, "a file a rank, all of one recording; folders of them; runs")
            ->required();
        command
            ->add_option("--what-if", options.what_ifs,
                         "foretell a step without: communication, host, input, or what a rank takes longer than the "
                         "others (rank=3); several with commas (default: all of them)")
            ->delimiter(',');
        command->add_option("--top", options.top, "so many rows of long tables (default 20)")
            ->check(whole_number(1, 1 << 30));
        command->add_option("--threads", options.threads, "that read (default: one for each core, at most 8)")
            ->check(whole_number(1, 64));
        command->add_flag("--json", options.json, "as JSON, times in microseconds, with every segment of the path");
        command->footer(
            "\nFrom the last end back through what each piece waited for: the kernel before it, its launch, another "
            "stream, the\ndevice, and of a collective the rank that came last. The ranks' clocks are put together by "
            "their collectives.\n\nExamples:\n  hyperion trace critical-path first\n  hyperion trace critical-path "
            "rank-0.json.gz rank-1.json.gz --what-if rank=1,communication");
      },
      critical_path_command);
}

}  // namespace hyperion::cli
