#include <cstdio>
#include <functional>
#include <optional>
#include <sstream>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/base/signals.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/host/launch.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/kernels/device.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/processes.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/trainer.h"

namespace hyperion::cli {
namespace {

using base::format;

strategy::ModelShape shape_of(const train::RunConfig& config, const std::string& model) {
  return models::config_shape(model, "the model", config.train.length);
}

int dry_run(const train::RunConfig& config, const base::Settings& settings, const std::string& name) {
  const auto shape = shape_of(config, train::model_config(base::real_files(), config));
  const int64_t units = config.train.batch * (shape.context > 0 ? config.train.length : 1);
  std::printf("%s\n", settings.toml(true).c_str());
  std::printf("run         %s\n", (interop::runs_folder() / name).c_str());
  std::printf("parameters  %s\n", base::with_commas(shape.parameters).c_str());
  std::printf("%s      %s a step, %s in all\n", shape.context > 0 ? "tokens" : "images",
              base::with_commas(units).c_str(), base::with_commas(units * config.train.steps).c_str());
  std::printf("operations  %.3g a step\n", static_cast<double>(units) * shape.flops_token());
  std::printf("memory      at least %s\n",
              base::bytes_text(static_cast<uint64_t>(train::memory_need(config, shape).all())).c_str());
  std::printf("nothing was written (--dry-run)\n");
  return 0;
}

// Before anything touches a GPU.
void apply_nccl(const train::RunConfig& config, const host::Launch& launch) {
  const auto done = comm::apply(config.parallel.nccl);
  if (!done.empty() && launch.rank == 0) base::log_info("environment: " + done);
}

// What cannot work is found before anything is made or changed, or another process waited for.
void check_start(const train::RunConfig& config, const std::string& model, const host::Launch& launch) {
  const auto shape = shape_of(config, model);
  train::check(config, shape);
  train::check_processes(config, launch.world);
  train::check_memory(config, shape, kernels::open_device(config.train.device), launch.world);
  train::check_fit(train::open_split(config, shape), shape, config);
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

train::Processes join(const train::RunConfig& config, const std::string& settings, const host::Launch& launch) {
  base::throw_if_stopped("starting");  // the job may have ended while this rank was still reading its settings
  const comm::WorldOptions options{.timeout = std::chrono::seconds(config.parallel.timeout),
                                   .stall = std::chrono::seconds(config.parallel.stall)};
  // NCCL wants a GPU for each process; where they share one, tensors go by way of the host.
  const bool gpu = kernels::open_device(config.train.device).is_cuda() && launch.local_world > 0 &&
                   launch.local_world <= kernels::gpu_count();
  auto world = comm::World::join(launch, options);
  expect_same_settings(*world, settings);
  return train::Processes(std::move(world), config.parallel, gpu);
}

// The run's folder is made or opened by the first process; the others are told where it is.
train::RunFolder shared_folder(train::Processes& processes, const std::function<train::RunFolder()>& make) {
  std::optional<train::RunFolder> run;
  const std::string path = processes.world().from_first("run", [&] {
    run.emplace(make());
    return run->path().string();
  });
  return run ? std::move(*run) : train::RunFolder::join(path);
}

// How far the run has come: 0 without a checkpoint. Bad ones are told of, and passed over.
int64_t newest_good_step(base::FileSystem& files, const train::RunFolder& run) {
  if (checkpoint::list_checkpoints(files, run.checkpoints()).empty()) return 0;
  return checkpoint::load_newest(files, run.checkpoints()).step;
}

// A resumed run must be the run it was.
void refuse_changes(const std::vector<Override>& overrides) {
  for (const auto& [name, value, flag] : overrides) {
    const bool other_data = (name.starts_with("data.") && name != "data.threads") || name.starts_with("augment.");
    const bool other_run = name.starts_with("model.") || name.starts_with("lora.") || other_data ||
                           name == "train.seed" || name == "train.precision" || name == "train.length" ||
                           name == "optim.rule";
    if (other_run)
      throw base::ConfigError(format("{} cannot change on resume", name), "start another run with `hyperion train`");
  }
}

// A start that was refused for what it asked leaves no folder that stands in the way of the next try.
void drop_if_never_begun(base::FileSystem& files, const train::RunFolder& run, const base::Error& error) {
  const bool refused =
      error.exit_code() == 2 || error.exit_code() == 3 || dynamic_cast<const base::CorruptError*>(&error) != nullptr;
  const bool begun = files.exists(run.checkpoints()) || (files.exists(run.metrics()) && files.size(run.metrics()) > 0);
  if (refused && !begun) files.remove_all(run.path());
}

}  // namespace

int train_command(const TrainOptions& options) {
  train::RunConfig config;
  const auto settings = resolve(config, options.recipe, options.overrides);
  const std::string name =
      options.run.empty() ? train::default_run_name(options.recipe, base::real_clock().unix_seconds()) : options.run;
  if (options.dry_run) return dry_run(config, settings, name);
  const auto launch = host::find_launch();
  apply_nccl(config, launch);
  check_start(config, train::model_config(base::real_files(), config), launch);
  // A run may be resumed from any folder.
  for (auto& path : config.data.path) path = std::filesystem::absolute(path).lexically_normal();
  if (std::filesystem::is_directory(config.model.from))
    config.model.from = std::filesystem::absolute(config.model.from).lexically_normal();
  auto& files = base::real_files();
  auto processes = join(config, settings.toml(false), launch);
  auto run = shared_folder(
      processes, [&] { return train::RunFolder::create(files, interop::runs_folder(), name, settings.toml(false)); });
  try {
    train::train(files, {config, settings, run, options.recipe, false, &processes});
  } catch (const base::Error& error) {
    if (processes.first()) drop_if_never_begun(files, run, error);
    throw;
  }
  return 0;
}

int resume_command(const ResumeOptions& options) {
  refuse_changes(options.overrides);
  auto& files = base::real_files();
  const auto launch = host::find_launch();
  const base::Path path = interop::find_run(files, options.run);
  // Alone, the lock comes first: no one may change what is read here. Several processes settle that once they have met.
  std::optional<train::RunFolder> locked;
  if (launch.world == 1) locked.emplace(train::RunFolder::open(files, path));
  const auto place = train::RunFolder::join(path);
  train::RunConfig config;
  const auto settings = read_run_config(config, place.config(), options.overrides);
  const auto record = train::past_record(files, place.path());
  const int64_t step = newest_good_step(files, place);
  if (record.status == "complete" && step >= config.train.steps) {
    std::printf("run %s is complete (step %ld of %ld); nothing to do\nhint: train it further with --steps N\n",
                place.name().c_str(), static_cast<long>(step), static_cast<long>(record.steps));
    return 0;
  }
  if (step > config.train.steps)
    throw base::ConfigError(
        format("run {} is at step {} already, past train.steps = {}", place.name(), step, config.train.steps),
        "name more steps, or leave --steps out");
  apply_nccl(config, launch);
  check_start(config, files.exists(place.model()) ? files.read(place.model()) : train::model_config(files, config),
              launch);
  auto processes = join(config, settings.toml(false), launch);
  auto run =
      shared_folder(processes, [&] { return locked ? std::move(*locked) : train::RunFolder::open(files, path); });
  if (!options.overrides.empty() && processes.first())
    base::write_atomically(files, run.config(), settings.toml(false));
  train::train(files, {config, settings, run, record.recipe, true, &processes});
  return 0;
}

}  // namespace hyperion::cli
