// Shell completion, generated from the commands themselves.
#pragma once
#include <string>
#include <vector>

namespace hyperion::cli {

struct CompletionCommand {
  std::string path;                // "bench hardware"
  std::vector<std::string> words;  // its flags and subcommands
  bool takes_settings = false, takes_run = false;
};

std::string bash_completion(const std::vector<CompletionCommand>& commands, const std::vector<std::string>& settings);
std::string zsh_completion(const std::vector<CompletionCommand>& commands, const std::vector<std::string>& settings);

}  // namespace hyperion::cli
