#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <sstream>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/recipe_paths.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/host/launch.h"
#include "hyperion/interop/base_weights.h"
#include "hyperion/interop/named_checkpoint.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/interop/weight_files.h"
#include "hyperion/kernels/device.h"
#include "hyperion/models/registry.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/train/epochs.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/model_for_data.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_identity.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/run_settings.h"
#include "hyperion/train/trainer.h"

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

// What a start would be refused for: data that is not there, or cannot be read.
void print_data_trouble(const train::RunConfig& config, const strategy::ModelShape& shape) {
  bool there = true;
  for (const auto& path : config.data.path)
    if (!base::real_files().exists(path)) {
      there = false;
      std::printf("data        %s is not there (looked in %s)\n", path.c_str(),
                  std::filesystem::current_path().c_str());
    }
  if (!there) return;
  try {
    train::open_split(config, shape);
  } catch (const base::Interrupted&) {
    throw;
  } catch (const base::Error& error) {
    std::printf("data        %s\n", error.what());
    if (!error.hint().empty()) std::printf("            hint: %s\n", error.hint().c_str());
  }
}

int dry_run(const train::RunConfig& config, const base::Settings& settings, const std::string& name, bool or_resume) {
  const auto launch = host::find_launch();
  train::check_processes(config, launch.world);
  if (launch.rank != 0) return 0;
  const auto shape = shape_of(config, train::model_config(base::real_files(), config));
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
  print_data_trouble(config, shape);
  if (config.train.device.starts_with("cuda") && kernels::gpu_count() == 0)
    std::printf("device      %s, and there is no GPU that this program can use\n", config.train.device.c_str());
  std::printf("nothing was written (--dry-run)\n");
  return 0;
}

// Before anything touches a GPU.
void apply_nccl(const train::RunConfig& config, const host::Launch& launch) {
  const auto done = comm::apply(config.parallel.nccl);
  if (!done.empty() && launch.rank == 0) base::log_info("environment: " + done);
}

// What cannot work is found before anything is made or changed, or another process waited for.
void check_start(train::RunConfig& config, const std::string& model, const host::Launch& launch,
                 train::Behind behind = {}) {
  train::check(config, shape_of(config, model));
  train::check_processes(config, launch.world);
  train::check_memory(config, shape_of(config, model), kernels::open_device(config.train.device), launch.world);
  const auto split = train::open_split(config, shape_of(config, model));
  const auto said = train::settle_epochs(config, split, launch.world, behind);
  if (!said.empty() && launch.rank == 0) base::log_warn(said);
  train::check_fit(split, shape_of(config, train::model_for_data(config, model, split).config), config);
}

// What depends on how many processes there are.
void settle_batch(train::RunConfig& config, const host::Launch& launch) {
  if (config.train.batch_per_rank > 0) config.train.batch = config.train.batch_per_rank * launch.world;
}

// How long a run of epochs is, before anything asks whether it is over.
void settle_steps(train::RunConfig& config, const std::string& model, const host::Launch& launch,
                  train::Behind behind) {
  if (config.train.epochs == 0) return;
  const auto split = train::open_split(config, shape_of(config, model));
  const auto said = train::settle_epochs(config, split, launch.world, behind);
  if (!said.empty() && launch.rank == 0) base::log_warn(said);
}

// The first line in which two resolved recipes differ, but for what belongs to a machine.
std::string difference(const std::string& own, const std::string& first) {
  std::istringstream ours(own), theirs(first);
  std::string mine, other, section;
  for (;;) {
    const bool more = static_cast<bool>(std::getline(ours, mine)),
               there = static_cast<bool>(std::getline(theirs, other));
    if (!more && !there) return {};
    if (more && mine.starts_with("[")) section = mine;
    const bool of_machine = mine.starts_with("threads =") || mine.starts_with("device =");
    if (more != there || (mine != other && !of_machine))
      return format("{} {} here, {} there", section, more ? mine : "nothing", there ? other : "nothing");
  }
}

// Ranks with other settings would train something that no one asked for, and say nothing.
void expect_same_settings(comm::World& world, const std::string& settings) {
  const std::string differs = difference(settings, world.from_first("settings", [&] { return settings; }));
  if (!differs.empty())
    throw base::ConfigError(format("rank {} has other settings than rank 0: {}", world.rank(), differs),
                            "start every rank with the same recipe, flags and HYPERION_ variables");
}

// Every rank looks at the run's folder for itself. One that sees another one would train another run.
void expect_same_start(comm::World& world, int64_t step) {
  const auto text = [](int64_t from) {
    return from < 0 ? std::string("begins anew") : format("goes on from step {}", from);
  };
  const std::string first = world.from_first("start", [&] { return text(step); });
  if (first != text(step))
    throw base::ConfigError(format("rank {} {}, and rank 0 {}", world.rank(), text(step), first),
                            "all ranks need the same folder of runs: HYPERION_RUNS on a disk that they share");
}

std::shared_ptr<comm::World> meet(const train::RunConfig& config, const host::Launch& launch) {
  base::throw_if_stopped("starting");  // the job may have ended while this rank was still reading its settings
  return comm::World::join(launch, {.timeout = std::chrono::seconds(config.parallel.timeout),
                                    .stall = std::chrono::seconds(config.parallel.stall)});
}

// `step` is where the run goes on; -1: it begins.
parallel::Processes join(std::shared_ptr<comm::World> world, const train::RunConfig& config,
                         const std::string& settings, const host::Launch& launch, int64_t step) {
  // NCCL wants a GPU for each process; where they share one, tensors go by way of the host.
  const bool gpu = kernels::open_device(config.train.device).is_cuda() && launch.local_world > 0 &&
                   launch.local_world <= kernels::gpu_count();
  expect_same_start(*world, step);
  expect_same_settings(*world, settings);
  return parallel::Processes(std::move(world), config.parallel, gpu);
}

// The run's folder is made or opened by the first process; the others are told where it is.
train::RunFolder shared_folder(comm::World& world, const std::function<train::RunFolder()>& make) {
  std::optional<train::RunFolder> run;
  const std::string path = world.from_first("run", [&] {
    run.emplace(make());
    return run->path().string();
  });
  return run ? std::move(*run) : train::RunFolder::join(path);
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
      if (aloud) base::log_info(format("zeropp = {} is left out: zero {} has none", past.parallel.zeropp, zero->value));
      overrides.push_back({"parallel.zeropp", "", zero->flag});
    }
  }
  return read_run_config(config, run, overrides);
}

// A start that was refused for what it asked leaves no folder that stands in the way of the next try.
void drop_if_never_begun(base::FileSystem& files, const train::RunFolder& run, const base::Error& error) {
  const bool refused =
      error.exit_code() == 2 || error.exit_code() == 3 || dynamic_cast<const base::CorruptError*>(&error) != nullptr;
  const bool begun = files.exists(run.checkpoints()) || (files.exists(run.metrics()) && files.size(run.metrics()) > 0);
  if (refused && !begun) files.remove_all(run.path());
}

// Rank 0 holds the run from here on, so that no one changes what is read. What it is refused the others hear when they
// meet.
struct Hold {
  Hold(const base::Path& path, const host::Launch& launch) {
    if (launch.rank != 0) return;
    try {
      folder.emplace(train::RunFolder::open(base::real_files(), path));
      train::restore_run_settings(base::real_files(), path);
    } catch (const base::Error&) {
      if (launch.world == 1) throw;
      refused = std::current_exception();
    }
  }
  train::RunFolder take() {
    if (refused) std::rethrow_exception(refused);
    return std::move(*folder);
  }
  std::optional<train::RunFolder> folder;
  std::exception_ptr refused;
};

// What the run was until now: as its newest checkpoint says, else its own file.
std::vector<std::string> compare_with_past(const train::RunFolder& place, const std::optional<train::StartPoint>& start,
                                           train::RunConfig& config, const base::Settings& settings) {
  train::RunConfig before;
  auto was = train::bind(before);
  train::apply_run_settings(base::real_files(), place.path(), was);
  if (start) train::apply_settings(start->state.settings, was, start->manifest());
  const std::string model = train::read_run_model(base::real_files(), place.path());
  if (start && !model.empty()) train::check_same_model(model, place.model().string(), *start);
  return train::changes_of({place.name(), before, was, start ? &*start : nullptr}, config, settings);
}

// Than when its newest checkpoint was written: who asks for more steps wants them after an early stop too.
bool is_longer(const train::RunConfig& config, const train::StartPoint& start) {
  train::RunConfig before;
  auto was = train::bind(before);
  train::apply_settings(start.state.settings, was, start.manifest());
  return config.train.steps > before.train.steps;
}

// Where checkpoints were written and are not there any more, to begin anew would throw away what is left of the run.
void refuse_lost_checkpoints(const report::RunRecord& record, const train::RunFolder& place, int64_t every) {
  const bool ended = record.status == "complete" || record.status == "stopped";
  const bool written = ended ? record.step > 0 : every > 0 && record.step > every;
  if (!written) return;
  throw base::ConfigError(
      format("run {} was at step {}, and its checkpoints are not in {} any more", place.name(), record.step,
             place.checkpoints().string()),
      format("put them back; or train anew: under another name, or after `hyperion runs rm {}`", place.name()));
}

// A complete run that was moved is told where its data and its base lie now; the content must be the same.
void keep_places(const train::RunConfig& config, const base::Settings& settings, const train::RunFolder& place,
                 const train::StartPoint& start, const std::string& model) {
  auto& files = base::real_files();
  train::RunConfig past;
  read_run_config(past, place.path(), {});
  const bool data = past.data.path != config.data.path, base = past.model.from != config.model.from;
  if (!data && !base) return;
  if (data && train::open_split(config, shape_of(config, model)).digest != start.state.data_digest)
    throw base::ConfigError(
        format("{} is not the data that run {} was trained on", config.data.path.front(), place.name()),
        "name the folder that was moved");
  if (base && !start.state.base_digest.empty())
    interop::remember_base(files, place.path(), start.state.base_digest, config.model.from);
  base::write_atomically(files, place.config(), settings.toml(false));
  if (data) base::log_info(format("run {} finds its data at {}", place.name(), config.data.path.front()));
  if (base) base::log_info(format("run {} finds its base at {}", place.name(), config.model.from));
}

// What a run that is complete is told to do otherwise, and will not.
void warn_of_vain_settings(const train::RunFolder& place, const base::Settings& settings) {
  train::RunConfig past;
  const auto was = read_run_config(past, place.path(), {});
  for (const auto& now : settings.all()) {
    const std::string name = now.name();
    const bool taken = name == "data.path" || name == "model.from";  // by keep_places
    const bool settled = name == "train.steps" || name == "optim.warmup" || name == "optim.decay_steps";
    if (taken || (settled && !now.origin.starts_with("--")) || now.text() == was.at(name).text()) continue;
    base::log_warn(format("{} = {} has no effect: run {} is complete, and was trained with {}", name, now.text(),
                          place.name(), was.at(name).text()));
  }
}

int go_on(train::RunConfig& config, const base::Settings& settings, const base::Path& path, Hold hold,
          const host::Launch& launch) {
  auto& files = base::real_files();
  const auto place = train::RunFolder::join(path);
  if (hold.refused) shared_folder(*meet(config, launch), [&] { return hold.take(); });
  const auto record = train::past_record(files, path);
  // Of a run that is complete nobody else would look at the tensors, and find that its last steps are lost.
  const auto tensors = record.status == "complete" ? train::Tensors::now : train::Tensors::later;
  auto start = train::find_start(files, place.checkpoints(), tensors);
  const int64_t step = start ? start->checkpoint.step : 0;
  const std::string kept = start ? train::read_run_model(files, path) : "";
  const std::string model = kept.empty() ? train::model_config(files, config) : kept;
  settle_batch(config, launch);
  const train::Behind behind{step, start ? start->state.cursor.samples : 0};
  settle_steps(config, model, launch, behind);
  auto changes = compare_with_past(place, start, config, settings);
  if (start && is_longer(config, *start)) start->state.validations.waited = 0;
  if (record.status == "complete" && start && step < config.train.steps &&
      start->state.validations.over(config.train.patience)) {
    if (launch.rank == 0) warn_of_vain_settings(place, settings);
    if (launch.rank == 0)
      base::print_lines(
          format("run {} ended early, after step {} of {}: {}; nothing to do\n"
                 "hint: train it further with --train.patience=N above {}, or 0 for none, or with more steps or epochs",
                 place.name(), step, config.train.steps, start->state.validations.waited_text(config.train.min_delta),
                 start->state.validations.waited));
    return 0;
  }
  if (record.status == "complete" && step >= config.train.steps) {
    if (launch.rank == 0) warn_of_vain_settings(place, settings);
    if (start && launch.rank == 0) keep_places(config, settings, place, *start, model);
    if (launch.rank == 0)
      base::print_lines(format("run {} is complete (step {} of {}); nothing to do\nhint: train it further with {}",
                               place.name(), step, record.steps,
                               config.train.epochs > 0 ? "--train.epochs=N" : "--steps N"));
    return 0;
  }
  if (!start && record.status == "complete" && record.step >= config.train.steps) {
    if (launch.rank == 0)
      base::print_lines(format("run {} is complete (step {} of {}), and its checkpoints are gone; nothing to do",
                               place.name(), record.step, record.steps));
    return 0;
  }
  if (!start) refuse_lost_checkpoints(record, place, config.checkpoint.every);
  if (step > config.train.steps)
    throw base::ConfigError(
        format("run {} is at step {} already, past train.steps = {}", place.name(), step, config.train.steps),
        "name more steps, or leave --steps out");
  train::check_schedule(config);
  check_start(config, model, launch, behind);
  auto world = meet(config, launch);
  auto folder = shared_folder(*world, [&] { return hold.take(); });
  auto processes = join(std::move(world), config, settings.toml(false), launch, step);
  // What is refused has changed nothing.
  const auto keep = [&] {
    const std::string now = settings.toml(false);
    if (processes.first() && files.read(folder.config()) != now) base::write_atomically(files, folder.config(), now);
  };
  train::train(files, {.config = config,
                       .settings = settings,
                       .run = folder,
                       .recipe = record.recipe,
                       .resume = true,
                       .processes = &processes,
                       .accepted = keep,
                       .start = &start,
                       .changes = std::move(changes)});
  return 0;
}

// A run may be resumed from any folder.
void make_data_absolute(train::RunConfig& config) {
  for (auto& path : config.data.path) path = std::filesystem::absolute(path).lexically_normal();
}
void fix_model(train::RunConfig& config) {
  if (!config.model.from.empty()) config.model.from = interop::fixed_model(base::real_files(), config.model.from);
}

// What a recipe leaves open means, for a run that was begun with it, what it was settled as then: the checkpoint of a
// run it names, the pixels of the model it starts from.
void settle_as_begun(train::RunConfig& config, const base::Path& run) {
  const auto absolute = [](const base::Path& path) { return std::filesystem::absolute(path).lexically_normal(); };
  train::RunConfig past;
  read_run_config(past, run, {});
  if (auto& normalise = config.data.augment.normalise; normalise == "auto") normalise = past.data.augment.normalise;
  if (auto& filter = config.data.augment.filter; filter == "auto") filter = past.data.augment.filter;
  if (auto& centre = config.data.augment.centre; centre == 0) centre = past.data.augment.centre;
  if (auto& image = config.model.image; image == 0 && !config.model.from.empty()) image = past.model.image;
  const base::Path of_run = base::Path(past.model.from).parent_path().parent_path();
  const std::string named = config.model.from.substr(0, config.model.from.rfind('@'));  // of RUN@best
  if (named.empty() || past.model.from.empty()) return;
  if (absolute(interop::runs_folder() / named) == of_run || absolute(named) == of_run)
    config.model.from = past.model.from;
  else if (std::filesystem::is_directory(named))
    config.model.from = absolute(named);
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
  const auto launch = host::find_launch();
  settle_batch(config, launch);
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
  apply_nccl(config, launch);
  const int capability = kernels::gpu_capability(kernels::open_device(config.train.device));
  if (const auto said = train::settle_precision(config.train, capability); !said.empty() && launch.rank == 0)
    base::log_warn(said);
  if (goes_on) {
    make_data_absolute(config), settle_as_begun(config, place.path());
    return go_on(config, settings, place.path(), Hold(place.path(), launch), launch);
  }
  if (named) train::check_run_name(name);
  if (const auto said = train::settle_normalisation(files, config); !said.empty() && launch.rank == 0)
    base::log_info(said);
  check_start(config, train::model_config(files, config), launch);
  make_data_absolute(config), fix_model(config);
  auto processes = join(meet(config, launch), config, settings.toml(false), launch, -1);
  auto run = shared_folder(processes.world(), [&] {
    const auto create = named ? train::RunFolder::create : train::RunFolder::create_numbered;
    return create(files, interop::runs_folder(), name, settings.toml(false));
  });
  try {
    train::train(files, {config, settings, run, options.recipe, false, &processes});
  } catch (const base::Error& error) {
    if (processes.first()) drop_if_never_begun(files, run, error);
    throw;
  }
  return 0;
}

int resume_command(const ResumeOptions& options) {
  const auto launch = host::find_launch();
  const base::Path path = interop::find_run(base::real_files(), options.run);
  Hold hold(path, launch);
  train::RunConfig config;
  const auto settings = resume_settings(config, path, options.overrides, launch.rank == 0);
  const auto given = [&](const char* name) {
    return std::any_of(options.overrides.begin(), options.overrides.end(),
                       [&](const auto& one) { return one.name == name; });
  };
  if (given("data.path")) make_data_absolute(config);
  if (given("model.from")) fix_model(config);
  if (given("train.steps") && config.train.epochs > 0)
    throw base::ConfigError(format("the run lasts train.epochs = {}", config.train.epochs),
                            "say --train.epochs=N in place of --steps");
  if (given("train.batch")) config.train.batch_per_rank = 0;
  apply_nccl(config, launch);
  return go_on(config, settings, path, std::move(hold), launch);
}

}  // namespace hyperion::cli
