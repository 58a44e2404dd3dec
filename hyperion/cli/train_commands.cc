#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/launch_commands.h"
#include "hyperion/command/recipe_paths.h"
#include "hyperion/command/registry.h"
#include "hyperion/command/resolve.h"
#include "hyperion/command/usage.h"
#include "hyperion/device/device.h"
#include "hyperion/host/launch.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/interop/weight_files.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/model_for_data.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/session.h"
#include "hyperion/train/step_stages.h"

namespace hyperion::cli {
namespace {

using base::format;

strategy::ModelShape shape_of(const train::RunConfig& config, const std::string& model) {
  return models::config_shape(model, "the model", config.train.length);
}

// What recipe, variables and flags say; `config show` has the rest.
void print_chosen(const base::Settings& settings) {
  int64_t others = 0;
  for (const auto& setting : settings.all())
    if (setting.origin == "default")
      ++others;
    else
      std::printf("%-40s # %s\n", (setting.name() + " = " + setting.text()).c_str(), setting.origin.c_str());
  std::printf("and %lld others at their defaults: `hyperion config show` has them\n\n", static_cast<long long>(others));
}

// The file that a Hugging Face folder of a configuration alone lacks; empty: none.
std::string absent_weights(base::FileSystem& files, const std::string& from) {
  if (from.empty()) return {};
  const base::Path folder = interop::find_model(files, from);
  if (!files.exists(folder / "config.json")) return {};
  const std::string file = interop::missing_weight_file(files, folder);
  return file.empty() ? "" : (folder / file).string();
}

// What a start would be refused for: data that is not there, or cannot be read. That is told, as it may come yet;
// where the model cannot take the data, this throws as the start would.
void check_data(const train::RunConfig& config, const std::string& model) {
  bool there = true;
  for (const auto& path : config.data.path)
    if (!base::real_files().exists(path)) {
      there = false;
      std::printf("data        %s is not there (looked in %s)\n", path.c_str(),
                  std::filesystem::current_path().c_str());
    }
  if (!there) return;
  std::optional<data::Split> split;
  try {
    split = train::open_split(config, shape_of(config, model));
  } catch (const base::Interrupted&) {
    throw;
  } catch (const base::Error& error) {
    std::printf("data        %s\n", error.what());
    if (!error.hint().empty()) std::printf("            hint: %s\n", error.hint().c_str());
    return;
  }
  train::check_fit(*split, shape_of(config, train::model_for_data(config, model, *split).config), config);
}

int dry_run(train::RunConfig config, const base::Settings& settings, const std::string& name, bool or_resume) {
  const auto launch = host::find_launch();
  const std::string model = train::model_config(base::real_files(), config);
  train::settle_layout(config, model, launch.world);
  train::check_processes(config, launch.world);
  if (launch.rank != 0) return 0;
  train::check_layout(config, model, launch.world);
  const auto shape = shape_of(config, model);
  const int64_t units = config.train.batch * (shape.context > 0 ? config.train.length : 1);
  print_chosen(settings);
  const auto place = train::RunFolder::join(interop::runs_folder() / name);
  const bool there = or_resume && interop::is_run(base::real_files(), place.path());
  if (!there) train::check_run_name(name);
  std::printf("run         %s%s\n", place.path().c_str(), there ? ", which is there and would go on" : "");
  std::printf("parameters  %s\n", base::with_commas(shape.parameters).c_str());
  const bool adapter = config.lora.rank > 0;  // what it adds is known once the model is made
  if (adapter)
    std::printf("trained     an adapter of rank %lld beside them, and a head where one is new\n",
                static_cast<long long>(config.lora.rank));
  if (const auto absent = absent_weights(base::real_files(), config.model.from); !absent.empty())
    std::printf("weights     %s is not there: sizes are those of config.json\n", absent.c_str());
  const std::string in_all = config.train.epochs > 0 ? format("{} epochs", config.train.epochs)
                                                     : base::with_commas(units * config.train.steps) + " in all";
  std::printf("%s      %s a step, %s\n", shape.context > 0 ? "tokens" : "images", base::with_commas(units).c_str(),
              in_all.c_str());
  const auto cost = adapter ? strategy::with_adapter(shape, 0, 0) : shape;
  std::printf("operations  %.3g a step%s\n", static_cast<double>(units) * cost.flops_token(),
              adapter ? ", without the adapter's own" : "");
  std::printf("memory      at least %s\n",
              base::bytes_text(static_cast<uint64_t>(train::memory_need(config, shape, launch.world).all())).c_str());
  check_data(config, model);
  if (config.train.device == device::DeviceChoice::cuda && device::gpu_count() == 0)
    std::printf("device      %s, and there is no GPU that this program can use\n", base::word_of(config.train.device));
  std::printf("nothing was written (--dry-run)\n");
  return 0;
}

// What only zero 3 has goes where another zero is asked for, unless it was asked for too: then the two contradict.
base::Settings resume_settings(train::RunConfig& config, const base::Path& run, std::vector<Override> overrides,
                               bool aloud) {
  const auto given = [&](const char* name) {
    return std::find_if(overrides.begin(), overrides.end(), [&](const Override& one) { return one.name == name; });
  };
  const auto zero = given("parallel.zero");
  if (zero != overrides.end() && zero->value != "3" && given("parallel.zeropp") == overrides.end()) {
    train::RunConfig past;
    read_run_config(past, run, {});
    if (!past.parallel.zeropp.empty()) {
      if (aloud)
        base::log_info(format("zeropp = {} is left out: zero {} has none", past.parallel.zeropp.text(), zero->value));
      overrides.push_back({"parallel.zeropp", "", zero->flag});
    }
  }
  return read_run_config(config, run, overrides);
}

// Stopped before its first step it has lost none, and is preempted as one that wrote a checkpoint is. Ctrl-C has one
// code for both.
template <class Options>
auto preemptible(int (*work)(const Options&)) {
  return [work](const Options& options) {
    try {
      return work(options);
    } catch (const base::Interrupted& stop) {
      const int signal = stop.exit_code() - 128;
      if (signal != SIGTERM && signal != SIGHUP && signal != SIGUSR1 && signal != SIGXCPU) throw;
      throw base::Interrupted(
          stop.what(), base::stop_exit_code(signal),
          "no step is lost: start it again, with --or-resume where the run's folder is there by now");
    }
  };
}

}  // namespace

int train_command(const TrainOptions& options) {
  if (options.recipe.empty())
    throw base::ConfigError("no recipe was named: RECIPE is empty",
                            "name a TOML file, such as recipes/quickstart.toml");
  if (options.or_resume && options.run.empty())
    throw base::ConfigError("--or-resume needs to know which run", "add --run NAME");
  train::RunConfig config;
  auto settings = resolve(config, options.recipe, options.overrides);
  const train::Session session{config, settings};
  const auto& launch = session.launch;
  train::settle_batch(config, launch);
  const bool named = !options.run.empty();
  const std::string name =
      named ? options.run : train::default_run_name(options.recipe, base::real_clock().unix_seconds());
  auto& files = base::real_files();
  const auto place = train::RunFolder::join(interop::runs_folder() / name);
  const bool goes_on = options.or_resume && interop::is_run(files, place.path());
  if (!goes_on) require_paths(settings, options.recipe, {"data.path", "model.config", "model.from"});
  if (const auto said = goes_on ? "" : train::settle_image(files, config); !said.empty() && launch.rank == 0)
    base::log_info(said);
  if (options.dry_run) return dry_run(config, settings, name, options.or_resume);
  if (const auto said = shortened_warmup(settings); !said.empty() && launch.rank == 0) base::log_warn(said);
  train::apply_nccl(session);
  train::settle_device(session);
  if (!goes_on) {
    train::begin_run(session, name, /*numbered=*/!named, options.recipe);
    return 0;
  }
  train::HeldRun held(place.path(), launch);
  train::make_data_absolute(config), train::settle_as_begun(config, place.path());
  train::resume_run(session, place.path(), std::move(held));
  return 0;
}

int resume_command(const ResumeOptions& options) {
  const auto launch = host::find_launch();
  const base::Path path = interop::find_run(base::real_files(), options.run);
  train::HeldRun held(path, launch);
  train::RunConfig config;
  const auto settings = resume_settings(config, path, options.overrides, launch.rank == 0);
  const auto given = [&](const char* name) {
    return std::any_of(options.overrides.begin(), options.overrides.end(),
                       [&](const auto& one) { return one.name == name; });
  };
  if (given("data.path")) train::make_data_absolute(config);
  if (given("model.from")) train::fix_model(config);
  if (given("train.steps") && config.train.epochs > 0)
    throw base::ConfigError(format("the run lasts train.epochs = {}", config.train.epochs),
                            "say --train.epochs=N in place of --steps");
  if (given("train.batch")) config.train.batch_per_rank = 0;
  const train::Session session{config, settings, launch};
  train::apply_nccl(session);
  train::resume_run(session, path, std::move(held));
  return 0;
}

void add_train_command(Commands& commands) {
  const auto add_flags = [](CLI::App* train, TrainOptions& options) {
    train->add_option("RECIPE", options.recipe, "a TOML file, such as recipes/quickstart.toml")->required();
    train->add_option("--run", options.run, "name of the run (default: recipe and time)")->check(not_empty());
    train->add_flag(
        "--or-resume", options.or_resume,
        "go on with --run from its newest good checkpoint where it is there, so that the same command can be "
        "started again");
    train->add_flag("--dry-run", options.dry_run, "show what would be run; write nothing");
    add_short_flags(train, options.given);
    add_rank_flags(train, options.rank);
    train->footer(
        "\nExamples:\n  hyperion train recipes/quickstart.toml\n  hyperion train recipes/quickstart.toml --run mine "
        "--steps 200 --optim.lr=1e-3\n"
        "  HYPERION_OPTIM__LR=1e-3 hyperion train recipes/quickstart.toml --precision bf16\n\nSettings (recipe < "
        "HYPERION_SECTION__KEY < flag):\n" +
        settings_help());
  };
  commands.add<TrainOptions>("train", "train a model from a recipe", add_flags, preemptible(train_command));
}

void add_resume_command(Commands& commands) {
  const auto add_flags = [](CLI::App* resume, ResumeOptions& options) {
    resume->add_option("RUN", options.run, "the run's name or folder")->required();
    add_short_flags(resume, options.given);
    add_rank_flags(resume, options.rank);
    resume->footer(
        "\nExamples:\n  hyperion resume quickstart\n  hyperion resume quickstart --steps 3000\n\nThe model, data, "
        "seed, "
        "precision and length of a run cannot change, only where its data lies. What else changes is said. More steps "
        "keep "
        "the last learning rate, unless --optim.decay_steps says where the schedule ends.");
  };
  commands.add<ResumeOptions>("resume", "go on with a run from its newest good checkpoint", add_flags,
                              preemptible(resume_command));
}

}  // namespace hyperion::cli
