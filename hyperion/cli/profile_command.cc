// Traces of a run that is under way. `profile all`: profile_all_command.cc.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/profile/trace_request.h"
#include "hyperion/trace/run_trace.h"
#include "hyperion/train/run_folder.h"

namespace hyperion::cli {
namespace {

using base::format;

struct ProfileOptions {
  std::string run, ranks = "all";
  int64_t steps = 3;
  bool memory = false;
};

std::vector<int64_t> ranks_in(const std::string& text) {
  std::vector<int64_t> ranks;
  if (text == "all") return ranks;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    int64_t rank = -1;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, rank);
    if (error != std::errc() || stop != text.data() + end || rank < 0 || rank > profile::TraceRequest::kMostRank)
      throw base::ConfigError(format("--ranks {}: \"{}\" is no rank", text, text.substr(at, end - at)),
                              format("say all, or ranks up to {} as 0,3,7", profile::TraceRequest::kMostRank));
    ranks.push_back(rank);
    at = end + 1;
  }
  return ranks;
}

// The files of a recording come one after the other; it is whole when none is being written.
bool is_being_written(const base::Path& run) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(run / "traces", none))
    if (entry.path().filename().string().find(".partial") != std::string::npos) return true;
  return false;
}

[[noreturn]] void end_without(const base::Path& run, const std::string& name) {
  profile::withdraw_request(base::real_files(), run);
  throw base::Error(format("run {} ended before its steps were traced", name),
                    format("hyperion train RECIPE --profile 1+3@100 traces those of a run from its begin"));
}

int profile_command(const ProfileOptions& options) {
  if (options.run.empty())  // not said to CLI11, which would ask `profile all` for it too
    throw base::ConfigError("RUN is required", "name one that is being trained, or see `hyperion profile --help`");
  auto& files = base::real_files();
  const auto run = interop::find_run(files, options.run);
  const auto name = run.filename().string();
  const profile::TraceRequest request{options.steps, ranks_in(options.ranks), options.memory};
  if (!train::RunFolder::in_use(run))
    throw base::ConfigError(format("run {} is not being trained", name),
                            format("hyperion resume {} --profile 1+3@STEP goes on with it, and traces steps", name));
  if (profile::trace_is_asked(files, run))
    throw base::ConfigError(format("somebody else asks for a trace of run {} already", name),
                            "wait until theirs is there");
  const double begun = base::now();
  profile::ask_for_trace(files, run, request);
  std::vector<base::Path> recorded;
  try {
    std::optional<profile::TraceAnswer> answer;
    bool said = false;
    for (size_t known = 0;;) {
      base::throw_if_stopped("waiting for the traces");
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const bool trained = train::RunFolder::in_use(run);
      if (!answer) answer = profile::take_answer(files, run);
      if (answer && !answer->refused.empty())
        throw base::ConfigError(format("run {} traces nothing: {}", name, answer->refused), "ask for what it can do");
      if (!said && base::now() - begun > 2 && (answer || base::now() - begun > 4)) {
        base::log_info(
            answer ? format("run {} traces steps {} to {}", name, answer->first, answer->first + options.steps - 1)
                   : format("waiting for run {} to see the request", name));
        said = true;
      }
      if (answer) recorded = trace::recording(run, answer->first);
      const bool whole = !recorded.empty() && !is_being_written(run);
      if (whole && recorded.size() == known) break;
      known = whole ? recorded.size() : 0;
      if (!trained && recorded.empty()) end_without(run, name);
    }
  } catch (...) {
    profile::withdraw_request(files, run);
    throw;
  }
  for (const auto& file : recorded) std::printf("%s\n", file.string().c_str());
  base::log_info(format("hyperion trace analyze {} says where the time went", name));
  return 0;
}

}  // namespace

void add_profile_command(Commands& commands) {
  commands.add<ProfileOptions>(
      "profile", "trace the next steps of a run while it goes on",
      [](CLI::App* command, ProfileOptions& options) {
        command->add_option("RUN", options.run, "that is being trained");
        command->add_option("--steps", options.steps, "to trace, after one of warm-up (default 3)")
            ->check(whole_number(1, profile::TraceRequest::kMostSteps));
        command->add_option("--ranks", options.ranks, "all (default), or some as 0,3,7");
        command->add_flag("--memory", options.memory, "also all that is allocated, for `hyperion trace memory`");
        command->footer(
            "\nAll processes trace the same steps, into the run's folder, written while it goes on; prints the files "
            "once they are there.\n\nExamples:\n  hyperion profile quickstart\n  hyperion profile quickstart --steps 5 "
            "--ranks 0,3 && hyperion trace analyze quickstart");
      },
      profile_command);
  auto profile = commands.within("profile");
  add_profile_all(profile);
}

}  // namespace hyperion::cli
