// `hyperion runs ...` and `hyperion report`: what is done with runs that are there.
#pragma once
#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace hyperion::cli {

struct RunsOptions {
  std::string run, name;          // of one; its new name
  std::vector<std::string> runs;  // of several
  int64_t lines = 10;             // of tail
  bool json = false, follow = false, yes = false;
};

void add_runs_commands(CLI::App& app, RunsOptions& options);
// Nothing where the command line asks for another command.
std::optional<int> run_runs_command(const CLI::App& app, const RunsOptions& options);

}  // namespace hyperion::cli
