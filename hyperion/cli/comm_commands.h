// The commands that measure jobs of several processes: `comm-check`, `bench comm`, `bench scaling`.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>

#include "hyperion/host/launch.h"

namespace hyperion::cli {

// `bench`: the command that `bench comm` and `bench scaling` are added to. What they remember lives as long as the
// program.
void add_comm_commands(CLI::App& app, CLI::App& bench, host::RankFlags& rank);

// Runs the one that was given; nothing where it was another.
std::optional<int> run_comm_command(CLI::App& app);

}  // namespace hyperion::cli
