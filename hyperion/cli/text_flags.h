// The command lines of generate and chat, and the flag that says in which form weights are used.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "hyperion/cli/commands.h"

namespace hyperion::cli {

// What a MODEL can be, for --help.
inline constexpr const char* kModelMeaning =
    "a run's name or folder, RUN@best, a checkpoint's folder, a Hugging Face folder, or OWNER/NAME of the hub "
    "(`hyperion fetch`)";

void add_quantize_flag(CLI::App* command, std::string& quantize);

}  // namespace hyperion::cli
