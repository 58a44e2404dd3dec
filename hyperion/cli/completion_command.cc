#include <cstdio>

#include "hyperion/bench/workloads.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/completion.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"

namespace hyperion::cli {
namespace {

struct CompletionOptions {
  std::string shell;
};

void collect(CLI::App* app, const std::string& path, std::vector<CompletionCommand>& commands) {
  CompletionCommand command{path, {}, {}};
  for (auto* option : app->get_options()) {
    const std::string name = option->get_name();
    const auto choices = choices_of(*option);
    if (name.starts_with("--")) command.words.push_back(name);
    if (name.starts_with("--") && !choices.empty()) command.flags.push_back({name, choices});
    if (!name.starts_with("-")) command.words.insert(command.words.end(), choices.begin(), choices.end());
    command.takes_run |= name == "RUN" || name == "MODEL";
    if (name != "WORKLOAD") continue;
    for (const auto& workload : bench::workloads()) command.words.emplace_back(workload.name);
  }
  for (auto* child : app->get_subcommands({}))
    if (!child->get_group().empty()) command.words.push_back(child->get_name());  // no group: hidden
  command.takes_settings = app->get_allow_extras();
  commands.push_back(command);
  for (auto* child : app->get_subcommands({}))
    collect(child, path.empty() ? child->get_name() : path + " " + child->get_name(), commands);
}

int completion_command(CLI::App& app, const std::string& shell) {
  std::vector<CompletionCommand> commands;
  collect(&app, "", commands);
  std::printf("%s", (shell == "bash" ? bash_completion : zsh_completion)(commands, completion_settings()).c_str());
  return 0;
}

}  // namespace

void add_completion_command(Commands& commands) {
  const auto add_flags = [](CLI::App* completion, CompletionOptions& options) {
    completion->add_option("SHELL", options.shell, "bash or zsh")->required()->check(one_of({"bash", "zsh"}));
    completion->footer("\nExample:\n  source <(hyperion completion bash)");
  };
  auto* program = &commands.app();
  commands.add<CompletionOptions>(
      "completion", "print shell completion", add_flags,
      [program](const CompletionOptions& options) { return completion_command(*program, options.shell); });
}

}  // namespace hyperion::cli
