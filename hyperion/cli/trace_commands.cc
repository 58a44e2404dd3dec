// What profilers recorded: read, analysed, compared.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/analysis/path_report.h"
#include "hyperion/analysis/stragglers.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/output_file.h"
#include "hyperion/base/printable.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/open_trace.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/trace_comparison.h"
#include "hyperion/command/trace_output.h"
#include "hyperion/command/trace_page.h"
#include "hyperion/command/usage.h"

namespace hyperion::cli {
namespace {

using base::format;

struct TraceOptions {
  std::vector<std::string> traces;  // files, folders or runs
  std::string before, after;        // of diff
  std::string html;                 // of analyze
  int64_t top = 20, threads = 0;
  double short_gap = 30, threshold = 5, share = 1;  // microseconds; percent
  bool last_step = false, json = false;
  analysis::SummaryOptions summary;
};

analysis::AnalysisOptions analysis_options(const TraceOptions& options) {
  return {.steps = {.include_last = options.last_step}, .short_gap = static_cast<int64_t>(options.short_gap * 1000)};
}

AnalyzedTraces analyzed_traces(const std::vector<std::string>& words, const TraceOptions& options) {
  const auto how = analysis_options(options);
  AnalyzedTraces found;
  read_ranks(words, options.threads, [&](trace::Trace&& trace) {
    found.ranks.push_back(analysis::analyze(trace, how));
    found.communication.push_back(analysis::communication_of(trace));
    if (!options.html.empty())
      add_for_page(found, std::move(trace));
    else if (analysis::has_own_spans(trace))
      found.layers.push_back(analysis::layer_times(analysis::timeline_of(std::move(trace))));
  });
  analysis::order_by_rank(found.ranks);
  const auto by_rank = [](const auto& a, const auto& b) { return a.rank < b.rank; };
  std::stable_sort(found.communication.begin(), found.communication.end(), by_rank);
  std::stable_sort(found.memory.begin(), found.memory.end(), by_rank);
  std::stable_sort(found.layers.begin(), found.layers.end(), by_rank);
  return found;
}

void print_analysis(const AnalyzedTraces& found, const analysis::JobCommunication& job, size_t top) {
  const auto& ranks = found.ranks;
  auto tables = analysis::layer_tables(found.layers, top);
  for (auto& table : analysis::analysis_tables(ranks, top)) tables.push_back(std::move(table));
  for (auto& table : analysis::communication_tables(found.communication, job)) tables.push_back(std::move(table));
  print_tables(tables);
  if (const auto straggler = analysis::find_straggler(ranks))
    std::printf("\n%s\n", analysis::straggler_text(*straggler).c_str());
  for (const auto& rank : ranks)
    if (rank.device_events == 0)
      std::printf("%srank %ld has no kernels: %s\n", &rank == &ranks[0] ? "\n" : "", static_cast<long>(rank.rank),
                  analysis::without_kernels_text(rank));
}

int trace_analyze_command(const TraceOptions& options) {
  if (!options.html.empty()) base::output_file(options.html, ".html");  // before anything is read
  auto found = analyzed_traces(options.traces, options);
  const auto job = analysis::job_communication(found.communication);
  const auto top = static_cast<size_t>(options.top);
  if (options.json) {
    auto json = analysis::analysis_json(found.ranks, top);
    json["straggler"] = analysis::straggler_json(analysis::find_straggler(found.ranks));
    json["communication"] = analysis::communication_json(found.communication, job);
    json["layers"] = analysis::layers_json(found.layers);
    print_trace_json(json);
  } else {
    print_analysis(found, job, top);
  }
  if (options.html.empty()) return 0;
  base::write_atomically(base::real_files(), base::output_file(options.html, ".html"), trace_page(found, job, top));
  if (!options.json) std::printf("\npage: %s\n", options.html.c_str());
  return 0;
}

int trace_show_command(const TraceOptions& options) {
  base::Json shown = base::Json::array();
  for (const auto& file : trace_files_of(options.traces.at(0))) {
    const auto trace = read_shown(file, options.threads);
    const auto summary = analysis::summarize(trace, options.summary);
    if (options.json) {
      shown.push_back(analysis::summary_json(trace, summary));
      continue;
    }
    const auto& facts = trace.facts;
    std::printf("%s: %s events%s%s, %s in memory\n\n", base::printable_line(facts.path).c_str(),
                base::with_commas(static_cast<int64_t>(trace.size())).c_str(),
                facts.rank ? format(", rank {}", *facts.rank).c_str() : "",
                facts.world_size ? format(" of {}", *facts.world_size).c_str() : "",
                base::bytes_text(trace.bytes()).c_str());
    print_tables(analysis::summary_tables(trace, summary));
  }
  if (options.json) print_trace_json(shown);
  return 0;
}

int trace_memory_command(const TraceOptions& options) {
  base::Json shown = base::Json::array();
  bool any = false;
  for (const auto& word : options.traces)
    for (const auto& file : trace_files_of(word)) {
      const auto trace = read_shown(file, options.threads);
      const auto rank = trace.facts.rank.value_or(0);
      const auto lines = analysis::memory_timelines(trace);
      const auto top = static_cast<size_t>(options.top);
      if (options.json)
        shown.push_back({{"rank", rank}, {"file", trace.facts.path}, {"devices", analysis::memory_json(lines, top)}});
      else
        print_tables(analysis::memory_tables(rank, lines, top));
      any = any || !lines.empty();
    }
  if (options.json) print_trace_json(shown);
  if (!any)
    throw base::ConfigError("none of these traces tells of allocations",
                            "record them: train --profile 1+3@100,memory, hyperion profile RUN --memory, or PyTorch's "
                            "profiler with profile_memory=True");
  return 0;
}

int trace_diff_command(const TraceOptions& options) {
  TraceComparison comparison{.before = options.before,
                             .after = options.after,
                             .judge = {.percent = options.threshold, .share = options.share},
                             .how = analysis_options(options),
                             .top = options.top,
                             .threads = options.threads,
                             .json = options.json};
  return compare_traces(comparison);
}

void add_reading(CLI::App* command, TraceOptions& options) {
  command->add_option("--top", options.top, "so many rows of long tables (default 20)")
      ->check(whole_number(1, 1 << 30));
  command->add_option("--threads", options.threads, "that read (default: one for each core, at most 8)")
      ->check(whole_number(1, 64));
  command->add_flag("--json", options.json, "as JSON, times in microseconds");
}

void add_steps(CLI::App* command, TraceOptions& options) {
  command->add_flag("--last-step", options.last_step,
                    "also what the last ProfilerStep launched; its end may be missing");
  command
      ->add_option("--short-gap", options.short_gap,
                   "microseconds below which a gap between kernels is what a launch costs (default 30)")
      ->check(number(0, 1e6));
}

}  // namespace

void add_trace_commands(Commands& commands) {
  auto trace = commands.group("trace", "what profilers recorded: where time went",
                              "\nExamples:\n  hyperion trace analyze traces/\n  hyperion trace show rank-0.json.gz "
                              "--name allreduce\n  hyperion trace diff before.json after.json");
  trace.add<TraceOptions>(
      "analyze", "idle, compute and communication, gaps by cause, kernels and operators",
      [](CLI::App* command, TraceOptions& options) {
        command
            ->add_option("TRACES", options.traces,
                         "Kineto's or Chrome's JSON (also .gz, .zst) or Perfetto's packets, a file a rank; folders of "
                         "them; runs")
            ->required();
        command
            ->add_option("--html", options.html,
                         "also write a page: what to look at first, pictures of a step and of memory, the critical "
                         "path")
            ->check(not_empty());
        add_steps(command, options);
        add_reading(command, options);
        command->footer(
            "\nOf PyTorch's profiler and of all that writes its JSON. The words are those of Holistic Trace Analysis:\n"
            "compute: a kernel of computation ran; non-compute: only communication, copies or fills; host wait: the "
            "launch came\ntoo late; kernel wait: a short gap.\n\nExamples:\n  hyperion trace analyze rank-0.json.gz "
            "rank-1.json.gz\n  hyperion trace analyze traces/ --top 40 --last-step\n  hyperion trace analyze traces/ "
            "--html traces.html\n  hyperion trace analyze first "
            "--json | jq '.ranks[0].times'");
      },
      trace_analyze_command);
  trace.add<TraceOptions>(
      "show", "what is in a trace, and its longest events",
      [](CLI::App* command, TraceOptions& options) {
        command->add_option("TRACE", options.traces, "a file, a folder or a run")->required()->expected(1);
        command->add_option("--name", options.summary.name, "only events with this in their name");
        command->add_option("--category", options.summary.category,
                            "only of this one: kernel, cpu_op, cuda_runtime, ...");
        add_reading(command, options);
        command->parse_complete_callback([&options] { options.summary.longest = static_cast<size_t>(options.top); });
        command->footer(
            "\nExamples:\n  hyperion trace show rank-0.json.gz\n  hyperion trace show rank-0.json --category kernel "
            "--name gemm --top 5");
      },
      trace_show_command);
  trace.add<TraceOptions>(
      "memory", "who held memory at its peak, by name",
      [](CLI::App* command, TraceOptions& options) {
        command->add_option("TRACES", options.traces, "files, folders or runs, recorded with allocations")->required();
        add_reading(command, options);
        command->footer(
            "\nOf each device the most that was allocated at once, when, and in which phase, block and operation its "
            "blocks were\nallocated; --json has the timeline too.\n\nExamples:\n  hyperion train recipe.toml --profile "
            "1+1@10,memory --run first && hyperion trace memory first\n  hyperion trace memory traces/ --json | jq "
            "'.[0].devices[0].peak'");
      },
      trace_memory_command);
  trace.add<TraceOptions>(
      "diff", "which kernels became slower from one recording to the next; exits 1 where one did",
      [](CLI::App* command, TraceOptions& options) {
        command->add_option("BEFORE", options.before, "a file, a folder with one a rank, or a run")->required();
        command->add_option("AFTER", options.after, "likewise")->required();
        command->add_option("--threshold", options.threshold, "percent that is a regression (default 5)")
            ->check(number(0, 1e6));
        command
            ->add_option("--share", options.share,
                         "percent of all kernels' time that a kernel must have lost to count (default 1)")
            ->check(number(0, 100));
        add_steps(command, options);
        add_reading(command, options);
        command->footer(
            "\nTimes are those of a step and a rank. Exits 1 where the device was busy longer by more than the "
            "threshold, or one kernel.\nWhere most kernels take longer by a like part, that is said, and they are "
            "judged "
            "against it: another clock or power\nlimit is no doing of the program.\n\nExample:\n  hyperion trace diff "
            "main.json.gz branch.json.gz --threshold 3");
      },
      trace_diff_command);
  add_trace_critical_path(trace);
  add_trace_roofline(trace);
  add_trace_export(trace);
}

}  // namespace hyperion::cli
