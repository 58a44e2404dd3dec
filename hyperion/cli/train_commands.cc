#include <cstdio>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/checkpoint/load.h"
#include "hyperion/checkpoint/step_folder.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/kernels/device.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/trainer.h"

namespace hyperion::cli {
namespace {

using base::format;

int dry_run(const train::RunConfig& config, const base::Settings& settings, const std::string& name) {
  const auto shape = models::shape_of(config.model, config.train.length);
  const double tokens = static_cast<double>(config.train.batch * config.train.length);
  std::printf("%s\n", settings.toml(true).c_str());
  std::printf("run         %s\n", (interop::runs_folder() / name).c_str());
  std::printf("parameters  %s\n", base::with_commas(shape.parameters).c_str());
  std::printf("tokens      %s a step, %s in all\n", base::with_commas(static_cast<int64_t>(tokens)).c_str(),
              base::with_commas(config.train.batch * config.train.length * config.train.steps).c_str());
  std::printf("operations  %.3g a step\n", tokens * shape.flops_token());
  std::printf("memory      at least %s\n",
              base::bytes_text(static_cast<uint64_t>(train::memory_need(config).all())).c_str());
  std::printf("nothing was written (--dry-run)\n");
  return 0;
}

// What cannot work is found before anything is made or changed.
void check_start(const train::RunConfig& config) {
  train::check_memory(config, kernels::open_device(config.train.device));
  data::open_data(config.data, config.train.length, config.train.seed);
}

// How far the run has come: 0 without a checkpoint. Bad ones are told of, and passed over.
int64_t newest_good_step(base::FileSystem& files, const train::RunFolder& run) {
  if (checkpoint::list_checkpoints(files, run.checkpoints()).empty()) return 0;
  return checkpoint::load_newest(files, run.checkpoints()).step;
}

// A resumed run must be the run it was.
void refuse_changes(const std::vector<Override>& overrides) {
  for (const auto& [name, value, flag] : overrides) {
    const bool other_run = name.starts_with("model.") || name.starts_with("data.") || name == "train.seed" ||
                           name == "train.precision" || name == "train.length" || name == "optim.rule";
    if (other_run)
      throw base::ConfigError(format("{} cannot change on resume", name), "start another run with `hyperion train`");
  }
}

}  // namespace

int train_command(const TrainOptions& options) {
  train::RunConfig config;
  const auto settings = resolve(config, options.recipe, options.overrides);
  const std::string name =
      options.run.empty() ? train::default_run_name(options.recipe, base::real_clock().unix_seconds()) : options.run;
  if (options.dry_run) return dry_run(config, settings, name);
  check_start(config);
  // A run may be resumed from any folder.
  if (!config.data.path.empty()) config.data.path = std::filesystem::absolute(config.data.path).lexically_normal();
  auto& files = base::real_files();
  auto run = train::RunFolder::create(files, interop::runs_folder(), name, settings.toml(false));
  train::train(files, {config, settings, run, options.recipe, false});
  return 0;
}

int resume_command(const ResumeOptions& options) {
  refuse_changes(options.overrides);
  auto& files = base::real_files();
  auto run = train::RunFolder::open(files, interop::find_run(files, options.run));
  train::RunConfig config;
  const auto settings = read_run_config(config, run.config(), options.overrides);
  const auto record = train::past_record(files, run.path());
  const int64_t step = newest_good_step(files, run);
  if (record.status == "complete" && step >= config.train.steps) {
    std::printf("run %s is complete (step %ld of %ld); nothing to do\nhint: train it further with --steps N\n",
                run.name().c_str(), static_cast<long>(step), static_cast<long>(record.steps));
    return 0;
  }
  if (step > config.train.steps)
    throw base::ConfigError(
        format("run {} is at step {} already, past train.steps = {}", run.name(), step, config.train.steps),
        "name more steps, or leave --steps out");
  check_start(config);
  if (!options.overrides.empty()) base::write_atomically(files, run.config(), settings.toml(false));
  train::train(files, {config, settings, run, record.recipe, true});
  return 0;
}

}  // namespace hyperion::cli
