#include "hyperion/command/resolve.h"

#include <unistd.h>

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/read_file.h"
#include "hyperion/command/recipe_paths.h"
#include "hyperion/models/registry.h"
#include "hyperion/nn/lora.h"
#include "hyperion/nn/meta.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_settings.h"

namespace hyperion::cli {
namespace {

constexpr uint64_t kLongestRecipe = 1 << 20;
constexpr const char* kShortened = "shortened from";

// Pipes are welcome, as from <(...); what could never end is not.
std::string read_recipe_file(base::FileSystem& files, const base::Path& path) {
  const auto type = std::filesystem::status(path).type();
  const bool regular = type == std::filesystem::file_type::regular;
  if (!regular && type != std::filesystem::file_type::fifo)
    throw base::ConfigError(base::format("{} is {}, not a recipe", path.string(),
                                         type == std::filesystem::file_type::directory ? "a folder" : "a device"),
                            "name a TOML file, such as recipes/quickstart.toml");
  if (regular && files.size(path) > kLongestRecipe)
    throw base::ConfigError(
        base::format("{} has {}: too long for a recipe", path.string(), base::bytes_text(files.size(path))),
        "a recipe is a short TOML file; the text to train on is named by data.path");
  return base::read_to_end(path, kLongestRecipe);
}

std::string read_recipe(const std::string& path) {
  auto& files = base::real_files();
  if (files.exists(path)) return read_recipe_file(files, path);
  std::vector<std::string> known;
  for (const auto& recipe : files.list("recipes")) known.push_back(recipe.string());
  for (const std::string& guess : {"recipes/" + path, "recipes/" + path + ".toml", path + ".toml"})
    if (files.exists(guess))
      throw base::ConfigError(base::format("no recipe at {}", path), base::format("did you mean {}?", guess));
  const std::string near = base::nearest(path, known.data(), known.data() + known.size());
  throw base::ConfigError(base::format("no recipe at {}", path), near.empty()
                                                                     ? "`hyperion init` writes one to start from"
                                                                     : base::format("did you mean {}?", near));
}

void apply(base::Settings& settings, const std::vector<Override>& overrides) {
  for (const auto& [name, value, flag] : overrides) settings.set(name, value, flag);
}

// Of where a value came from: what is nearer to the user is meant more.
int nearness(const std::string& origin) {
  return origin.starts_with("--") ? 3 : origin.starts_with("HYPERION_") ? 2 : origin != "default" ? 1 : 0;
}

// A few steps to try a recipe should not fail for a warm-up that was meant for many. Both from one place contradict.
void fit_warmup(train::RunConfig& config, base::Settings& settings) {
  const int64_t steps = config.train.steps, meant = config.optim.warmup;
  const std::string origin = settings.at("optim.warmup").origin;
  if (meant <= steps || nearness(settings.at("train.steps").origin) <= nearness(origin)) return;
  config.optim.warmup = steps / 10;
  settings.set("optim.warmup", base::format("{}", config.optim.warmup),
               base::format("{}, {} {}: train.steps = {}", origin, kShortened, meant, steps));
}

// A recipe that says nearly everything was written by a run.
bool says_everything(const base::Settings& settings) {
  const auto& all = settings.all();
  const auto left =
      std::count_if(all.begin(), all.end(), [](const auto& setting) { return setting.origin == "default"; });
  return 2 * left < std::ssize(all);
}

// Of two that say the same in two ways the nearer to the user is meant; from one place they contradict, but for what a
// run wrote of itself. `one` is 0 where it says nothing, and rules where it is not.
void choose_nearer(base::Settings& settings, const char* one, const char* other) {
  const auto &first = settings.at(one), &second = settings.at(other);
  const int near = nearness(first.origin), far = nearness(second.origin);
  if (first.text() == "0" || far == 0 || near > far) return;
  if (near == far && near == 1 && says_everything(settings)) return;
  if (near == far)
    throw base::ConfigError(base::format("{} = {} ({}) and {} = {} ({}) are both set", one, first.text(), first.origin,
                                         other, second.text(), second.origin),
                            "leave one of the two out");
  settings.set(one, "0", second.origin);
}

// A contradiction names its settings; where each got its value is known here.
void check(const train::RunConfig& config, const base::Settings& settings, bool begins) {
  try {
    train::check(config);
    if (begins) train::check_schedule(config);
  } catch (const base::ConfigError& error) {
    const std::string what = error.what();
    std::string places;
    for (const auto& setting : settings.all())
      if (what.find(setting.name()) != what.npos && setting.origin != "default")
        places += base::format("{}{} from {}", places.empty() ? "" : ", ", setting.name(), setting.origin);
    throw base::ConfigError(places.empty() ? what : base::format("{} ({})", what, places), error.hint());
  }
}

}  // namespace

base::Settings resolve(train::RunConfig& config, const std::string& recipe, const std::vector<Override>& overrides,
                       bool checked) {
  base::Settings settings = train::bind(config);
  if (!recipe.empty()) settings.read_toml(read_recipe(recipe), recipe);
  find_beside_recipe(settings, recipe);
  settings.read_environment(::environ);
  apply(settings, overrides);
  choose_nearer(settings, "train.epochs", "train.steps");
  choose_nearer(settings, "train.batch_per_rank", "train.batch");
  fit_warmup(config, settings);
  if (config.data.source == data::SourceKind::prepared && config.data.path.empty() && !config.prepare.output.empty())
    config.data.path = {config.prepare.output};
  if (checked) check(config, settings, /*begins=*/true);
  return settings;
}

std::string shortened_warmup(const base::Settings& settings) {
  const auto& warmup = settings.at("optim.warmup");
  if (warmup.origin.find(kShortened) == std::string::npos) return {};
  return base::format("optim.warmup = {} ({})", warmup.text(), warmup.origin);
}

base::Settings read_run_config(train::RunConfig& config, const base::Path& run,
                               const std::vector<Override>& overrides) {
  base::Settings settings = train::bind(config);
  train::apply_run_settings(base::real_files(), run, settings);
  apply(settings, overrides);
  check(config, settings, /*begins=*/false);
  return settings;
}

std::unique_ptr<models::Model> outline_of(const train::RunConfig& config) {
  const nn::MetaScope only_names;
  auto model = models::make_model(train::model_config(base::real_files(), config), "the model");
  if (config.lora.rank > 0) model->adapters().add("plan", nn::config_of(config.lora), config.train.seed);
  return model;
}

}  // namespace hyperion::cli
