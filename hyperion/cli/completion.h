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

struct CompletionSetting {
  std::string name;                 // "optim.schedule"
  std::vector<std::string> values;  // empty: any
  std::string short_flag;           // "--precision" for train.precision; empty: none
};

std::string bash_completion(const std::vector<CompletionCommand>& commands,
                            const std::vector<CompletionSetting>& settings);
std::string zsh_completion(const std::vector<CompletionCommand>& commands,
                           const std::vector<CompletionSetting>& settings);

}  // namespace hyperion::cli
