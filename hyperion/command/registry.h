// The one way to give the program a command: a name, its meaning, its flags, and the work that is done once they are
// read.
#pragma once
#include <CLI/CLI.hpp>
#include <concepts>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hyperion/command/setting_flags.h"
#include "hyperion/host/launch.h"

namespace hyperion::cli {

struct NoOptions {};

// Options that hold these have them settled before the work begins: who this process is, and `overrides`, by the flags
// of settings that were given.
template <class Options>
concept HasRankFlags = requires(Options& options) {
  { options.rank } -> std::same_as<host::RankFlags&>;
};
template <class Options>
concept HasSettingFlags = requires(Options& options) {
  { options.given } -> std::same_as<SettingFlags&>;
};

// The commands of the program, or of one that has commands of its own. --help shows them in the order they were added.
class Commands {
 public:
  explicit Commands(CLI::App& app) : app_(&app), works_(std::make_shared<Works>()) {}

  // `add_flags(CLI::App*, Options&)` says which flags there are and what else --help tells; `work(const Options&)`
  // gives the exit code. The options live as long as the commands.
  template <class Options, class AddFlags, class Work>
  void add(const std::string& name, const std::string& meaning, AddFlags add_flags, Work work, Options options = {}) {
    auto* command = app_->add_subcommand(name, meaning);
    auto kept = std::make_shared<Options>(std::move(options));
    add_flags(command, *kept);
    (*works_)[command] = [=] {
      if constexpr (HasRankFlags<Options>) host::set_rank_flags(kept->rank);
      if constexpr (HasSettingFlags<Options>) kept->overrides = overrides_of(command, kept->given);
      return work(std::as_const(*kept));
    };
  }

  // A command that only has commands of its own.
  Commands group(const std::string& name, const std::string& meaning, const std::string& footer);

  // A command that was added, which may have commands of its own beside what it does itself.
  Commands within(const std::string& name);

  // Of the program's own, in --help's order.
  std::vector<std::string> names() const;
  CLI::App& app() const { return *app_; }

  // Does the work of the command that the words of the command line named; returns the exit code.
  int run() const;

 private:
  using Works = std::map<const CLI::App*, std::function<int()>>;
  CLI::App* app_;
  std::shared_ptr<Works> works_;  // of all commands, groups and what is in them
};

}  // namespace hyperion::cli
