// The commands that time things: `bench train` and those beside it, and `tune`. Flags and what they do in one place.
#pragma once
#include <CLI/CLI.hpp>
#include <optional>

namespace hyperion::cli {

// `bench`: the command they are added to; `tune` goes to `app` itself. What they remember lives as long as the
// program.
void add_timing_commands(CLI::App& app, CLI::App& bench);

// Runs the one that was given; nothing where it was another. `name`: of the top command.
std::optional<int> run_timing_command(CLI::App& app);

}  // namespace hyperion::cli
