#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "hyperion/base/json.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/recipe_paths.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/models/registry.h"

namespace hyperion::cli {

int config_command(const ConfigOptions& options) {
  train::RunConfig config;
  const auto settings = resolve(config, options.recipe, options.overrides);
  if (options.json) {
    base::Json json = base::Json::object();
    for (const auto& setting : settings.all()) {
      auto& entry = json[setting.section][setting.key];
      std::visit([&](const auto& value) { entry["value"] = *value; }, setting.value);
      entry["origin"] = setting.origin;
    }
    std::printf("%s\n", json.dump(2).c_str());
  } else {
    std::printf("%s", settings.toml(options.origin).c_str());
  }
  return 0;
}

std::vector<CompletionSetting> completion_settings() {
  static const std::map<std::string, std::string> short_flags = {{"train.device", "--device"},
                                                                 {"train.precision", "--precision"},
                                                                 {"train.optimize", "--optimize"},
                                                                 {"memory.on_oom", "--on-oom"},
                                                                 {"prepare.on_bad", "--on-bad"}};
  train::RunConfig config;
  const auto settings = train::bind(config);
  std::vector<CompletionSetting> list;
  for (const auto& setting : settings.all()) {
    list.push_back({setting.name(), setting.choices, ""});
    list.back().is_model = setting.name() == "model.from";
    list.back().is_path = (is_read_path(setting.name()) && !list.back().is_model) || setting.name() == "prepare.output";
    if (std::holds_alternative<bool*>(setting.value)) list.back().values = {"true", "false"};
    if (setting.name() == "model.preset")
      for (const auto& preset : models::presets()) list.back().values.push_back(preset.name);
    if (const auto found = short_flags.find(setting.name()); found != short_flags.end())
      list.back().short_flag = found->second;
  }
  return list;
}

void add_config_commands(Commands& commands) {
  auto config = commands.group("config", "look at settings",
                               "\nExample:\n  hyperion config show recipes/quickstart.toml --origin");
  const auto add_flags = [](CLI::App* show, ConfigOptions& options) {
    show->add_option("RECIPE", options.recipe, "a TOML file; defaults without");
    show->add_flag("--origin", options.origin, "say where each value came from");
    show->add_flag("--json", options.json, "as JSON, with origins");
    add_short_flags(show, options.given);
    show->footer("\nExample:\n  hyperion config show recipes/quickstart.toml --origin --optim.lr=1e-3");
  };
  config.add<ConfigOptions>("show", "the settings a recipe, the environment and flags give together", add_flags,
                            config_command);
}

}  // namespace hyperion::cli
