// `hyperion init`: a recipe to start from.
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/files.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/base/read_file.h"
#include "hyperion/cli/commands.h"
#include "hyperion/command/recipe_templates.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/usage.h"
#include "hyperion/interop/deepspeed.h"
#include "hyperion/train/config.h"

namespace hyperion::cli {
namespace {

using base::format;

std::string every_setting() {
  train::RunConfig config;
  auto settings = train::bind(config);
  std::string text =
      "# A recipe for hyperion: every setting with its default. Run it with: hyperion train recipe.toml\n";
  std::string section;
  for (const auto& setting : settings.all()) {
    if (setting.section != section) text += format("\n[{}]\n", section = setting.section);
    std::string choices;
    for (const auto& choice : setting.choices) choices += (choices.empty() ? ": " : " | ") + choice;
    text += format("{:<28} # {}{}{}\n", format("{} = {}", setting.key, setting.text()), setting.meaning,
                   setting.unit.empty() ? "" : ", " + setting.unit, choices);
  }
  return text;
}

// A file's name for a comment, which is one line of UTF-8.
std::string commented(const std::string& name) {
  const std::string quoted = base::Json(name).dump(-1, ' ', false, base::Json::error_handler_t::replace);
  return quoted.substr(1, quoted.size() - 2);
}

// The settings that are not left to their defaults, each with where it came from.
std::string settings_text(const base::Settings& settings) {
  std::string text, section;
  for (const auto& setting : settings.all()) {
    if (setting.origin == "default") continue;
    if (setting.section != section) text += format("\n[{}]\n", section = setting.section);
    text += format("{:<28} # {}\n", format("{} = {}", setting.key, setting.text()), setting.origin);
  }
  return text;
}

std::string of_deepspeed(const std::string& file, int64_t ranks, const std::string& recipe) {
  constexpr uint64_t kLongest = 1 << 20;
  const auto read = interop::read_deepspeed(base::read_to_end(file, kLongest), file, ranks);
  train::RunConfig config;
  auto settings = train::bind(config);
  settings.set("model.preset", "gpt2-tiny", "yours to choose: DeepSpeed's file names no model");
  settings.set("data.source", "sums", "yours to choose: DeepSpeed's file names no data");
  for (const auto& [name, value, why] : read.settings) settings.set(name, value, why);
  train::check(config);
  parallel::layout_of(config.parallel, std::max({read.ranks, config.parallel.node_size, int64_t{1}}));
  std::string text = format(
      "# From {}. The model and the data are yours to name: `hyperion init --help` has templates.\n", commented(file));
  if (read.ranks > 1)
    text +=
        format("# For {} processes: hyperion launch -n {} -- train {}\n", read.ranks, read.ranks, commented(recipe));
  if (!read.notes.empty()) text += "#\n# What has no setting here, and why:\n";
  for (const auto& note : read.notes) text += format("#   {}\n", note);
  return text + settings_text(settings);
}

}  // namespace

int init_command(const InitOptions& options) {
  if (options.folder.empty())
    throw base::ConfigError("no folder was named: FOLDER is empty", "leave it out to write recipe.toml here");
  auto& files = base::real_files();
  const base::Path recipe =
      options.output.empty() ? base::Path(options.folder) / "recipe.toml" : base::Path(options.output);
  if (files.exists(recipe))
    throw base::ConfigError(
        format("{} exists already", recipe.string()),
        options.output.empty() ? "nothing was changed; name another folder" : "nothing was changed; name another file");
  const std::string text = !options.deepspeed.empty() ? of_deepspeed(options.deepspeed, options.ranks, recipe.string())
                           : options.kind.empty()     ? every_setting()
                                                      : find_template(options.kind).text;
  if (recipe.has_parent_path()) files.create_folders(recipe.parent_path());
  base::write_atomically(files, recipe, text);
  std::printf("wrote %s\n", recipe.c_str());
  if (!options.deepspeed.empty())
    std::printf("next: name your model and data in it, then hyperion train %s\n", recipe.c_str());
  else if (options.kind.empty())
    std::printf("next: hyperion train %s\n", recipe.c_str());
  else
    std::printf("next: name your files in it, then hyperion data prepare %s\n", recipe.c_str());
  return 0;
}

void add_init_command(Commands& commands) {
  const auto add_flags = [](CLI::App* init, InitOptions& options) {
    auto* folder = init->add_option("FOLDER", options.folder, "where (default: here)");
    init->add_option("-o,--output", options.output, "the file to write (default: recipe.toml in FOLDER)")
        ->check(not_empty())
        ->excludes(folder);
    std::string kinds;
    for (const auto& kind : recipe_templates())
      kinds += base::format("{}{}: {}", kinds.empty() ? "" : "; ", kind.name, kind.meaning);
    auto* kind = init->add_option("--template", options.kind, kinds + " (default: every setting with its default)")
                     ->check(one_of(template_names()));
    auto* deepspeed =
        init->add_option("--from-deepspeed", options.deepspeed, "DeepSpeed's JSON file, in the words of a recipe")
            ->check(not_empty())
            ->excludes(kind);
    init->add_option("--ranks", options.ranks, "processes that this JSON is for (default: as its batch sizes say)")
        ->check(whole_number(1, 1 << 20))
        ->needs(deepspeed);
    init->footer(
        "\nExamples:\n  hyperion init my-model && hyperion train my-model/recipe.toml\n  hyperion init my-adapter "
        "--template lora\n  hyperion init --from-deepspeed ds_config.json -o recipe.toml");
  };
  commands.add<InitOptions>("init", "write a recipe to start from", add_flags, init_command);
}

}  // namespace hyperion::cli
