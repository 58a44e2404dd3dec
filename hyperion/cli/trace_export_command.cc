#include <CLI/CLI.hpp>
#include <cstdio>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/output_file.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/open_trace.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/trace/export_trace.h"

namespace hyperion::cli {
namespace {

using trace::ExportFormat;

struct TraceExportOptions {
  std::vector<std::string> traces;
  std::string to, output;
  int64_t threads = 0;
  bool gzip = false;
};

ExportFormat export_format(const TraceExportOptions& options) {
  if (options.gzip && options.to != "chrome")
    throw base::ConfigError(base::format("--gzip packs JSON, and --to {} writes none", options.to), "leave --gzip out");
  if (options.to == "own") return ExportFormat::own;
  if (options.to == "perfetto") return ExportFormat::perfetto;
  return options.gzip ? ExportFormat::chrome_gzip : ExportFormat::chrome;
}

bool same_file(const base::Path& a, const base::Path& b) {
  std::error_code error;
  return std::filesystem::equivalent(a, b, error) && !error;
}

int trace_export_command(const TraceExportOptions& options) {
  const auto format = export_format(options);
  std::vector<trace::TraceName> inputs;
  for (const auto& word : options.traces)
    for (const auto& file : trace_files_of(word)) inputs.push_back(file);
  auto& files = base::real_files();
  files.create_folders(options.output);
  std::set<int64_t> ranks;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto trace = read_shown(inputs[i], options.threads);
    const auto rank = trace.facts.rank.value_or(static_cast<int64_t>(i));
    if (!ranks.insert(rank).second)
      throw base::ConfigError(base::format("{} is of rank {}, as one before it is", trace.facts.path, rank),
                              "export one recording at a time, a file of each rank");
    const auto name = base::format("rank-{}{}", rank, trace::ending_of(format));
    const auto path = base::output_file(base::Path(options.output) / name);
    for (const auto& input : inputs)
      if (same_file(input.path, path))
        throw base::ConfigError(base::format("{} would be written over itself", input.path.string()),
                                "name another folder with --output");
    const auto exported = trace::export_trace(files, path, trace, format);
    std::printf("%s\n", path.c_str());
    if (exported.left_out > 0)
      base::log_warn(base::format("{}: {} of {} events have no place in this format", path.string(), exported.left_out,
                                  trace.size()));
  }
  return 0;
}

}  // namespace

void add_trace_export(Commands& trace) {
  trace.add<TraceExportOptions>(
      "export", "traces as other programs read them, a file a rank",
      [](CLI::App* command, TraceExportOptions& options) {
        command
            ->add_option("TRACES", options.traces,
                         "files (.htrace, .json, .json.gz, .json.zst, .pftrace, .sqlite, .db), folders, runs")
            ->required();
        command
            ->add_option("--to", options.to,
                         "chrome: JSON as PyTorch's profiler writes it; perfetto: packets of Perfetto; own: .htrace")
            ->required()
            ->check(CLI::IsMember({"chrome", "perfetto", "own"}));
        command->add_option("--output", options.output, "folder for rank-N.json, .pftrace or .htrace; made if need be")
            ->required();
        command->add_flag("--gzip", options.gzip, "pack the JSON: rank-N.json.gz");
        command->add_option("--threads", options.threads, "that read (default: one for each core, at most 8)")
            ->check(whole_number(1, 64));
        command->footer(
            "\nchrome keeps every field. perfetto keeps slices, instants, counters, arrows and arguments, and says how "
            "many events\nit left out.\n\nExamples:\n  hyperion trace export first --to chrome --gzip --output "
            "for-hta\n  hyperion trace export rank-0.json.gz --to own --output packed");
      },
      trace_export_command);
}

}  // namespace hyperion::cli
