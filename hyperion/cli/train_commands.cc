#include <cstdio>

#include "hyperion/base/clock.h"
#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/cli/commands.h"
#include "hyperion/cli/resolve.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/kernels/device.h"
#include "hyperion/train/run_folder.h"
#include "hyperion/train/trainer.h"

namespace hyperion::cli {
namespace {

using base::format;

int dry_run(const train::RunConfig& config, const base::Settings& settings, const std::string& name) {
  const auto shape = models::make_gpt2(config.model)->shape(config.train.length);
  const double tokens = static_cast<double>(config.train.batch * config.train.length);
  std::printf("%s\n", settings.toml(true).c_str());
  std::printf("run         %s\n", (interop::runs_folder() / name).c_str());
  std::printf("parameters  %s\n", base::with_commas(shape.parameters).c_str());
  std::printf("tokens      %s a step, %s in all\n", base::with_commas(static_cast<int64_t>(tokens)).c_str(),
              base::with_commas(config.train.batch * config.train.length * config.train.steps).c_str());
  std::printf("operations  %.3g a step\n", tokens * shape.flops_token());
  std::printf("nothing was written (--dry-run)\n");
  return 0;
}

// A resumed run must be the run it was.
void refuse_changes(const std::vector<Override>& overrides) {
  for (const auto& [name, value, flag] : overrides) {
    const bool other_run = name.starts_with("model.") || name.starts_with("data.") || name == "train.seed" ||
                           name == "train.precision" || name == "train.length";
    if (other_run)
      throw base::ConfigError(format("{} cannot change on resume", name), "start another run with `hyperion train`");
  }
}

}  // namespace

int train_command(const TrainOptions& options) {
  train::RunConfig config;
  const auto settings = resolve(config, options.recipe, options.overrides);
  const std::string name = options.run.empty() ? train::default_run_name(options.recipe, base::real_clock().unix_seconds()) : options.run;
  if (options.dry_run) return dry_run(config, settings, name);
  // What cannot work is found before anything is made.
  kernels::open_device(config.train.device);
  data::open_data(config.data, config.train.length, config.train.seed);
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
  const auto record = report::read_run_record(files, run.path());
  if (record.status == "complete" && record.step >= config.train.steps) {
    std::printf("run %s is complete (step %ld of %ld); nothing to do\nhint: train it further with --steps N\n", run.name().c_str(),
                static_cast<long>(record.step), static_cast<long>(record.steps));
    return 0;
  }
  if (!options.overrides.empty()) base::write_atomically(files, run.config(), settings.toml(false));
  train::train(files, {config, settings, run, record.recipe, true});
  return 0;
}

}  // namespace hyperion::cli
