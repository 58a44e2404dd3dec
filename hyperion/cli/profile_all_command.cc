// Every profiler that is installed over one short work, one after the other, and what they found beside each other.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/log.h"
#include "hyperion/base/printable.h"
#include "hyperion/base/read_file.h"
#include "hyperion/base/version.h"
#include "hyperion/base/words.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/bench/workloads.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/profiled_kernels.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/result_folder.h"
#include "hyperion/command/usage.h"
#include "hyperion/host/programs.h"
#include "hyperion/interop/find_run.h"

namespace hyperion::cli {
namespace {

using base::ConfigError;
using base::format;

struct ProfileAllOptions {
  ShortWork work;
  std::string output;
  std::vector<std::string> tools;
  int64_t limit = 600, top = 3;
  bool json = false;
};

struct ToolResult {
  ProfilerTool tool;
  std::string name, version;
  base::Path program, folder;
  std::vector<ToolCall> calls;  // those that were begun
  ToolEnd end;                  // of the last of them
  std::string failure;          // why it did not come to an end of its own, or left nothing
  size_t files = 0;
  ReadProfiles read;

  bool fine() const {
    return failure.empty() && end.well() &&
           std::none_of(read.files.begin(), read.files.end(), [](const auto& file) { return !file.problem.empty(); });
  }
};

std::optional<base::Path> found_program(ProfilerTool tool) {
  if (tool == ProfilerTool::hyperion) return base::Path(host::own_program());
  const char* path = std::getenv("PATH");
  for (const auto& name : programs_of(tool))
    if (const auto found = host::find_program(name, path == nullptr ? "" : path)) return found;
  return {};
}

// A run of `model.from` is looked for among the runs, and the work's own folder takes their place.
void settle_work(ShortWork& work) {
  if (!work.is_recipe()) {
    if (bench::find_workloads(work.name).size() != 1)
      throw ConfigError(format("{} is several workloads", work.name),
                        "name one: `hyperion bench workloads` lists them");
    return;
  }
  train::RunConfig config;
  resolve(config, work.name, {});
  if (config.model.from.empty()) return;
  if (const auto run = interop::named_run(base::real_files(), config.model.from))
    work.settings.push_back("--model.from=" + std::filesystem::absolute(*run).string());
}

std::string last_lines(const base::Path& log) {
  constexpr uint64_t kMost = uint64_t{64} << 20;
  std::string text;
  try {
    text = base::read_at_most(base::real_files(), log, kMost);
  } catch (const base::Error&) {
    return {};
  }
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) lines.push_back(base::printable_line(text.substr(at, std::min<size_t>(end - at, 200))));
    at = end + 1;
  }
  std::string last;
  for (size_t i = lines.size() - std::min<size_t>(lines.size(), 4); i < lines.size(); ++i) last += "\n    " + lines[i];
  return last;
}

std::string version_of(const ToolResult& result, resilience::Guardian& guardian) {
  constexpr double kLimit = 20;
  if (result.tool == ProfilerTool::hyperion) return base::version_text();
  const auto log = result.folder / "version.txt";
  try {
    run_tool({{result.program.string(), "--version"}, {}, log, {}, kLimit}, guardian);
    return version_in(base::read_description(base::real_files(), log));
  } catch (const base::Interrupted&) {
    throw;
  } catch (const base::Error&) {
    return {};
  }
}

void start_tool(ToolResult& result, const ProfileAllOptions& options, resilience::Guardian& guardian) {
  auto& files = base::real_files();
  result.version = version_of(result, guardian);
  const auto calls = calls_of(result.tool, result.program, result.folder, options.work);
  std::string commands;
  for (const auto& call : calls) commands += command_text(call) + "\n";
  base::write_atomically(files, result.folder / "command.txt", commands);
  for (auto call : calls) {
    call.limit = static_cast<double>(options.limit) - result.end.seconds;
    result.calls.push_back(call);
    const double before = result.end.seconds;
    result.end = run_tool(call, guardian);
    result.end.seconds += before;
    if (!result.end.well()) break;
  }
}

size_t count_files(const base::Path& folder) {
  std::error_code error;
  size_t count = 0;
  for (std::filesystem::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    count += at->is_regular_file(error) ? 1 : 0;
  return count;
}

ToolResult profile_with(ToolResult result, const ProfileAllOptions& options, resilience::Guardian& guardian) {
  base::real_files().create_folders(result.folder);
  try {
    start_tool(result, options, guardian);
  } catch (const base::Interrupted&) {
    throw;
  } catch (const base::Error& error) {
    result.failure = error.what();
  }
  // Of a recipe each tool trains a run: its weights are nobody's.
  base::real_files().remove_all(result.folder / "work" / "checkpoints");
  if (result.end.too_long)
    result.failure = format("took longer than {} s and was ended", options.limit);
  else if (result.failure.empty() && result.end.code != 0)
    result.failure = format("exit code {}", result.end.code);
  result.files = count_files(result.folder);
  result.read = read_profiles(result.tool, result.folder);  // also what one left that failed
  if (result.failure.empty() && result.read.files.empty()) result.failure = "left no file that can be read here";
  return result;
}

std::string exit_text(const ToolResult& result) {
  if (result.calls.empty()) return "not started";
  return result.end.too_long ? "time limit" : format("{}", result.end.code);
}

std::string held_text(const ProfileFile& file) {
  return file.path.filename().string() + ": " + (file.problem.empty() ? file.holds : "BROKEN");
}

std::vector<std::string> kernel_cells(const ReadProfiles& read, size_t top) {
  double all = 0;
  for (const auto& kernel : read.kernels) all += kernel.microseconds;
  std::vector<std::string> cells;
  for (size_t i = 0; i < std::min(top, read.kernels.size()); ++i) {
    const auto& kernel = read.kernels[i];
    cells.push_back(format("{}{} ({:.0f}%, {} of {:.1f} us)", read.of_host ? "host: " : "", kernel.name,
                           all > 0 ? 100 * kernel.microseconds / all : 0, base::with_commas(kernel.count),
                           kernel.microseconds / static_cast<double>(std::max<int64_t>(kernel.count, 1))));
  }
  return cells;
}

std::string results_table(const std::vector<ToolResult>& results, size_t top) {
  std::vector<std::vector<std::string>> rows = {{"tool", "version", "exit", "s", "files", "read", "top kernels"}};
  for (const auto& result : results) {
    std::vector<std::string> held;
    for (const auto& file : result.read.files) held.push_back(held_text(file));
    if (held.empty()) held.emplace_back("nothing");
    const auto kernels = kernel_cells(result.read, top);
    for (size_t i = 0; i < std::max(held.size(), kernels.size()) || i == 0; ++i)
      rows.push_back({i == 0 ? result.name : "", i == 0 ? result.version : "", i == 0 ? exit_text(result) : "",
                      i == 0 ? format("{:.1f}", result.end.seconds) : "", i == 0 ? format("{}", result.files) : "",
                      i < held.size() ? held[i] : "", i < kernels.size() ? kernels[i] : ""});
  }
  for (auto& row : rows)
    for (auto& cell : row) cell = base::printable_line(cell);
  return bench::aligned(rows, {0, 1, 2, 5, 6});
}

std::string results_text(const std::vector<ToolResult>& results, const std::vector<ProfilerTool>& missing, size_t top) {
  std::string text = results.empty() ? "" : results_table(results, top);
  for (const auto& result : results) {
    if (!result.failure.empty())
      text += format("\n{}: {}; the end of {}:{}\n", result.name, result.failure, (result.folder / "log.txt").string(),
                     last_lines(result.folder / "log.txt"));
    for (const auto& file : result.read.files)
      if (!file.problem.empty()) text += format("\n{}: {}\n", result.name, base::printable_line(file.problem));
  }
  if (!missing.empty()) text += (text.empty() ? "" : "\n") + std::string("not installed:\n");
  for (const auto tool : missing) text += format("  {:<16}{}\n", base::word_of(tool), how_to_get(tool));
  return text;
}

base::Json result_json(const ToolResult& result) {
  base::Json commands = base::Json::array(), read = base::Json::array(), kernels = base::Json::array();
  for (const auto& call : result.calls) commands.push_back(command_text(call));
  for (const auto& file : result.read.files)
    read.push_back({{"file", file.path.string()},
                    {"holds", file.holds},
                    {"problem", file.problem.empty() ? base::Json(nullptr) : base::Json(file.problem)}});
  for (const auto& kernel : result.read.kernels)
    kernels.push_back({{"name", kernel.name}, {"count", kernel.count}, {"us", kernel.microseconds}});
  return {{"tool", result.name},
          {"program", result.program.string()},
          {"version", result.version},
          {"commands", commands},
          {"exit", result.calls.empty() ? base::Json(nullptr) : base::Json(result.end.code)},
          {"time_limit", result.end.too_long},
          {"seconds", result.end.seconds},
          {"failure", result.failure.empty() ? base::Json(nullptr) : base::Json(result.failure)},
          {"folder", result.folder.string()},
          {"files", result.files},
          {"read", read},
          {result.read.of_host ? "operators" : "kernels", kernels}};
}

std::string results_json(const std::vector<ToolResult>& results, const std::vector<ProfilerTool>& missing,
                         const ShortWork& work) {
  base::Json tools = base::Json::array(), lacking = base::Json::array();
  for (const auto& result : results) tools.push_back(result_json(result));
  for (const auto tool : missing) lacking.push_back({{"tool", base::word_of(tool)}, {"get", how_to_get(tool)}});
  return base::Json{{"work", work.name}, {"steps", work.steps}, {"tools", tools}, {"not_installed", lacking}}.dump(
             2, ' ', false, base::Json::error_handler_t::replace) +
         "\n";
}

std::vector<ProfilerTool> wanted_tools(const ProfileAllOptions& options) {
  std::vector<ProfilerTool> wanted;
  for (const char* word : words_of(ProfilerTool{}))
    if (options.tools.empty() || std::find(options.tools.begin(), options.tools.end(), word) != options.tools.end())
      wanted.push_back(*base::from_word<ProfilerTool>(word));
  return wanted;
}

void refuse_used_folder(const std::string& output) {
  for (const char* word : words_of(ProfilerTool{}))
    if (!output.empty() && base::real_files().exists(base::Path(output) / word))
      throw ConfigError(format("{} holds profiles already", output), "name another folder, or move these away");
}

int profile_all_command(const ProfileAllOptions& given) {
  auto options = given;
  settle_work(options.work);
  refuse_used_folder(options.output);
  std::vector<ToolResult> started;
  std::vector<ProfilerTool> missing;
  resilience::Guardian guardian;
  const ResultFolder output("profile-all", options.output);
  const auto folder = std::filesystem::absolute(output.path());
  for (const auto tool : wanted_tools(options)) {
    const std::string name = base::word_of(tool);
    if (const auto program = found_program(tool))
      started.push_back({tool, name, {}, *program, folder / name, {}, {}, {}, 0, {}});
    else
      missing.push_back(tool);
  }
  std::vector<ToolResult> results;
  std::optional<base::Interrupted> stopped;
  for (size_t i = 0; i < started.size() && !stopped; ++i) {
    base::log_info(format("{} ({} of {}): {}", started[i].name, i + 1, started.size(), started[i].program.string()));
    try {
      results.push_back(profile_with(started[i], options, guardian));
    } catch (const base::Interrupted& stop) {
      stopped = stop;
    }
  }
  const auto text = results_text(results, missing, static_cast<size_t>(options.top));
  const auto json = results_json(results, missing, options.work);
  if (!results.empty()) {
    base::write_atomically(base::real_files(), folder / "profiles.txt", text);
    base::write_atomically(base::real_files(), folder / "profiles.json", json);
  }
  std::printf("%s", options.json ? json.c_str()
                                 : (text + (results.empty() ? "" : "\nfiles: " + folder.string() + "\n")).c_str());
  if (stopped) {
    std::fflush(stdout);
    throw *stopped;
  }
  const bool fine = std::all_of(results.begin(), results.end(), [](const auto& result) { return result.fine(); });
  return fine && !results.empty() ? 0 : 1;
}

}  // namespace

void add_profile_all(Commands& profile) {
  profile.add<ProfileAllOptions>(
      "all", "start every profiler that is installed over one short work, and read what they wrote",
      [](CLI::App* all, ProfileAllOptions& options) {
        all->add_option("WORKLOAD", options.work.name, "one of `hyperion bench workloads`, or a recipe (.toml)")
            ->required();
        all->add_option("--output", options.output,
                        "a folder for all they write (default: profile-all and time, among the runs)")
            ->check(not_empty());
        all->add_option("--tools", options.tools,
                        "only some: hyperion, nsys, ncu, rocprofv3, rocprof-sys, rocprof-compute")
            ->delimiter(',')
            ->allow_extra_args(false)
            ->check(one_word_of<ProfilerTool>());
        all->add_option("--steps", options.work.steps, "of the work, after its warm-up (default 10)")
            ->check(whole_number(4, 100'000));
        all->add_option("--device", options.work.device, "cpu, cuda or auto")->check(one_of({"auto", "cpu", "cuda"}));
        all->add_option("--optimize", options.work.optimize, "of train.optimize")
            ->check(one_of({"reference", "fused", "graph", "max"}));
        all->add_option("--limit", options.limit, "seconds a tool may take before it is ended (default 600)")
            ->check(whole_number(1, 86'400));
        all->add_option("--top", options.top, "kernels of each tool in the table (default 3)")
            ->check(whole_number(0, 1000));
        all->add_flag("--json", options.json, "as JSON, with all kernels");
        all->footer(
            "\nThe tools run one after the other, each into a folder of its own with its command line (command.txt) "
            "and what "
            "it said\n(log.txt). One that fails is told, and the others still run; the exit code is then "
            "1.\n\nExamples:\n"
            "  hyperion profile all gpt2-124m-b32\n  hyperion profile all recipes/quickstart.toml --tools "
            "hyperion,nsys "
            "--output profiles");
      },
      profile_all_command);
}

}  // namespace hyperion::cli
