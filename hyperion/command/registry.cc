#include "hyperion/command/registry.h"

namespace hyperion::cli {

Commands Commands::group(const std::string& name, const std::string& meaning, const std::string& footer) {
  Commands inner = *this;
  inner.app_ = app_->add_subcommand(name, meaning)->require_subcommand(1);
  inner.app_->footer(footer);
  return inner;
}

Commands Commands::within(const std::string& name) {
  Commands inner = *this;
  inner.app_ = app_->get_subcommand(name);
  return inner;
}

std::vector<std::string> Commands::names() const {
  std::vector<std::string> names;
  for (const auto* command : app_->get_subcommands({})) names.push_back(command->get_name());
  return names;
}

int Commands::run() const {
  const CLI::App* command = app_->get_subcommands().front();
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return works_->at(command)();
}

}  // namespace hyperion::cli
