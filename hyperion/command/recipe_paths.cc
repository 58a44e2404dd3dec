#include "hyperion/command/recipe_paths.h"

#include <filesystem>
#include <set>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/hub/cache.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/records/input_files.h"

namespace hyperion::cli {
namespace {

namespace fs = std::filesystem;
using base::Path;

// Nothing lies beside a pipe, and what lies here needs no second look.
Path folder_of(const std::string& recipe) {
  std::error_code ignored;
  if (recipe.empty() || !fs::is_regular_file(recipe, ignored)) return {};
  const Path folder = Path(recipe).parent_path();
  return fs::equivalent(folder.empty() ? "." : folder, ".", ignored) ? Path() : folder;
}

bool matches_something(const std::string& path) {
  std::error_code ignored;
  if (fs::exists(path, ignored)) return true;
  try {
    return !records::input_files({path}).empty();
  } catch (const base::Error&) {
    return false;
  }
}

bool stands_in(const base::Setting& setting, const std::string& recipe) {
  return setting.origin.starts_with(recipe + ":");
}

bool may_be_elsewhere(const std::string& value) {
  return !value.empty() && Path(value).is_relative() && value != "bytes";
}

template <class Do>
void each_value(const base::Setting& setting, const Do& act) {
  if (auto* const* text = std::get_if<std::string*>(&setting.value)) act(**text);
  if (auto* const* list = std::get_if<std::vector<std::string>*>(&setting.value))
    for (auto& value : **list) act(value);
}

// A model may be a run or a name of the hub too, a tokenizer the latter. Throws where the hub may have it.
bool has_another_place(const std::string& setting, const std::string& value) {
  std::error_code ignored;
  const std::string run = value.substr(0, value.find('@'));  // of RUN@best
  if (setting == "model.from" && !interop::names_path(run) && fs::exists(interop::runs_folder() / run, ignored))
    return true;
  if (setting != "model.from" && setting != "prepare.tokenizer") return false;
  return hub::locate(base::real_files(), value) != value;
}

}  // namespace

bool is_read_path(const std::string& setting) {
  static const std::set<std::string> paths = {"data.path",
                                              "model.config",
                                              "model.from",
                                              "prepare.files",
                                              "prepare.tokenizer",
                                              "prepare.validation_files",
                                              "prepare.chat_template"};
  return paths.contains(setting);
}

void find_beside_recipe(base::Settings& settings, const std::string& recipe) {
  const Path folder = folder_of(recipe);
  if (folder.empty()) return;
  for (const auto& setting : settings.all()) {
    if (!is_read_path(setting.name()) || !stands_in(setting, recipe)) continue;
    each_value(setting, [&](std::string& value) {
      const std::string beside = (folder / value).lexically_normal();
      if (may_be_elsewhere(value) && matches_something(beside) &&
          (setting.name() != "model.from" || fs::is_directory(beside)))
        value = beside;
    });
  }
}

void require_paths(const base::Settings& settings, const std::string& recipe,
                   std::initializer_list<const char*> names) {
  const Path folder = folder_of(recipe);
  if (folder.empty()) return;
  for (const char* name : names) {
    const auto& setting = settings.at(name);
    if (!stands_in(setting, recipe)) continue;
    each_value(setting, [&](const std::string& value) {
      if (!may_be_elsewhere(value) || matches_something(value) || has_another_place(name, value)) return;
      std::error_code ignored;
      throw base::ConfigError(
          base::format("{} = \"{}\" ({}) is neither {} nor {}{}", name, value, setting.origin,
                       (folder / value).lexically_normal().string(), (fs::current_path(ignored) / value).string(),
                       setting.name() == "model.from"          ? ", nor a run or a model in Hugging Face's cache"
                       : setting.name() == "prepare.tokenizer" ? ", nor a model in Hugging Face's cache"
                                                               : ""),
          "paths of a recipe are looked for beside it, then in the current folder; a flag's start at the current "
          "folder");
    });
  }
}

}  // namespace hyperion::cli
