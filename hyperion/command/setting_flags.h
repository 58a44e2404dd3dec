// Settings on the command line: the flags everyone types, each a short name of one, and --section.key=VALUE.
#pragma once
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace hyperion::cli {

// All settings with their meaning, for --help; and their names.
std::string settings_help();
std::vector<std::string> setting_names();

// "train.steps" -> "300", with the flag as typed for messages and origins.
struct Override {
  std::string name, value, flag;
};

// Empty: not given.
struct SettingFlags {
  std::string steps, seed, device, precision, optimize, memory_budget, on_oom, output, on_bad;
  std::string parallel, zero, zeropp, deterministic, profile;
};

void add_short_flags(CLI::App* command, SettingFlags& flags);

// What the short flags say, and what is left over after the known flags: --section.key=value or --section.key value.
std::vector<Override> overrides_of(CLI::App* command, const SettingFlags& flags);

}  // namespace hyperion::cli
