#include "hyperion/cli/resolve.h"

#include <unistd.h>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"

namespace hyperion::cli {
namespace {

std::string read_recipe(const std::string& path) {
  auto& files = base::real_files();
  if (files.exists(path)) return files.read(path);
  std::vector<std::string> known;
  for (const auto& recipe : files.list("recipes")) known.push_back(recipe.string());
  for (const std::string& guess : {"recipes/" + path, "recipes/" + path + ".toml", path + ".toml"})
    if (files.exists(guess)) throw base::ConfigError(base::format("no recipe at {}", path), base::format("did you mean {}?", guess));
  const std::string near = base::nearest(path, known.data(), known.data() + known.size());
  throw base::ConfigError(base::format("no recipe at {}", path),
                          near.empty() ? "`hyperion init` writes one to start from" : base::format("did you mean {}?", near));
}

void apply(base::Settings& settings, const std::vector<Override>& overrides) {
  for (const auto& [name, value, flag] : overrides) settings.set(name, value, flag);
}

}  // namespace

base::Settings resolve(train::RunConfig& config, const std::string& recipe, const std::vector<Override>& overrides) {
  base::Settings settings = train::bind(config);
  if (!recipe.empty()) settings.read_toml(read_recipe(recipe), recipe);
  settings.read_environment(::environ);
  apply(settings, overrides);
  train::check(config);
  return settings;
}

base::Settings read_run_config(train::RunConfig& config, const base::Path& file, const std::vector<Override>& overrides) {
  base::Settings settings = train::bind(config);
  settings.read_toml(base::real_files().read(file), file.string());
  apply(settings, overrides);
  train::check(config);
  return settings;
}

}  // namespace hyperion::cli
