// The command lines of generate and chat, and the flag that says in which form weights are used.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "hyperion/cli/commands.h"

namespace hyperion::cli {

void add_generate_command(CLI::App& app, GenerateOptions& options);
void add_chat_command(CLI::App& app, ChatOptions& options);
void add_quantize_flag(CLI::App* command, std::string& quantize);

}  // namespace hyperion::cli
