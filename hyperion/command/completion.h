// Shell completion, generated from the commands themselves.
#pragma once
#include <string>
#include <vector>

namespace hyperion::cli {

struct CompletionFlag {
  std::string name;                 // "--quantize"
  std::vector<std::string> values;  // the only ones it takes
};

struct CompletionCommand {
  std::string path;                   // "bench hardware"
  std::vector<std::string> words;     // its flags, subcommands and words it knows
  std::vector<CompletionFlag> flags;  // of its flags those with a list of values
  bool takes_settings = false, takes_run = false;
};

struct CompletionSetting {
  std::string name;                        // "optim.schedule"
  std::vector<std::string> values;         // empty: any
  std::string short_flag;                  // "--precision" for train.precision; empty: none
  bool is_path = false, is_model = false;  // a file or folder; a run or a folder
};

std::string bash_completion(const std::vector<CompletionCommand>& commands,
                            const std::vector<CompletionSetting>& settings);
std::string zsh_completion(const std::vector<CompletionCommand>& commands,
                           const std::vector<CompletionSetting>& settings);

}  // namespace hyperion::cli
