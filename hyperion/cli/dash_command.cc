#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/dash/site.h"
#include "hyperion/host/ports.h"
#include "hyperion/interop/find_run.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/web/guard.h"
#include "hyperion/web/server.h"

namespace hyperion::cli {
namespace {

using base::format;

constexpr int kDashPort = 7007, kTriedPorts = 20;

struct DashOptions {
  std::vector<std::string> runs;
  std::string folder;
  int64_t port = -1;
};

dash::ShownRuns shown_runs(const std::vector<std::string>& names) {
  dash::ShownRuns shown;
  shown.status = [](const report::RunRecord& record) { return train::RunFolder::status(record); };
  shown.named = !names.empty();
  std::vector<base::Path> named;
  for (const auto& name : names) {
    const auto folder = std::filesystem::absolute(interop::find_run(base::real_files(), name)).lexically_normal();
    if (std::find(named.begin(), named.end(), folder) == named.end()) named.push_back(folder);
  }
  shown.folders = [named, all = names.empty(), runs = interop::runs_folder()] {
    std::vector<base::Path> there;
    for (const auto& folder : all ? base::real_files().list(runs) : named)
      if (interop::is_run(base::real_files(), folder)) there.push_back(folder);
    return there;
  };
  return shown;
}

// The usual one, so that an address stays what it was; the next free one where another program has it.
int chosen_port(int64_t asked) {
  if (asked >= 0) return static_cast<int>(asked);
  for (int port = kDashPort; port < kDashPort + kTriedPorts; ++port)
    if (host::port_is_free(port)) return port;
  return 0;
}

std::string own_token() {
  const auto path = web::token_file();
  return path.empty() ? web::new_token() : web::kept_token(path);
}

int serve_dash(const DashOptions& options) {
  if (!options.folder.empty()) {
    if (!std::filesystem::is_directory(options.folder))
      throw base::ConfigError(format("--runs {} is no folder", options.folder), "name the folder that runs lie in");
    ::setenv("HYPERION_RUNS", options.folder.c_str(), 1);
  }
  dash::Site site(shown_runs(options.runs));
  web::Server server({.port = chosen_port(options.port), .token = own_token()},
                     [&](const web::Request& request) { return site.answer(request); });
  server.greet([&] { return site.greeting(); });
  std::printf("dash: %s\n", server.url().c_str());
  std::fflush(stdout);
  base::log_info(
      format("open it in a browser on this machine; from another: ssh -L {0}:127.0.0.1:{0} THIS-MACHINE. "
             "Ctrl-C ends it; runs are not touched",
             server.port()));
  server.run([&] { return site.tick(server.readers() > 0, [&](const std::string& event) { server.tell(event); }); },
             [] { return base::stop_signal() != 0; });
  base::throw_if_stopped("following runs");
  return 0;
}

}  // namespace

void add_dash_command(Commands& commands) {
  commands.add<DashOptions>(
      "dash", "a live page of runs: curves, ranks, logs and answers, in a browser on this machine",
      [](CLI::App* dash, DashOptions& options) {
        dash->add_option("RUNS", options.runs,
                         "their names or folders (default: all, also those that are yet to come)");
        dash->add_option("--port", options.port,
                         format("on 127.0.0.1 (default {}, or the next that is free; 0: any)", kDashPort))
            ->check(whole_number(0, 65535));
        dash->add_option("--runs", options.folder, "the folder that runs lie in (default ./runs, or HYPERION_RUNS)")
            ->check(not_empty());
        dash->footer(
            "\nPrints an address with a token that only this user knows; it listens on 127.0.0.1 alone. Runs need not "
            "know of it: it reads the files that they write.\n\nExamples:\n  hyperion dash\n  hyperion dash first "
            "second --port 8000");
      },
      serve_dash);
}

}  // namespace hyperion::cli
