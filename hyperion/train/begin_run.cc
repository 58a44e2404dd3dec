#include <algorithm>
#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/log.h"
#include "hyperion/comm/nccl_settings.h"
#include "hyperion/device/device.h"
#include "hyperion/interop/base_weights.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/model_for_data.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/session.h"
#include "hyperion/train/step_stages.h"
#include "hyperion/train/train_request.h"

namespace hyperion::train {
namespace {

strategy::ModelShape shape_of_model(const RunConfig& config, const std::string& model) {
  return models::config_shape(model, "the model", config.train.length);
}

// A start that was refused for what it asked leaves no folder that stands in the way of the next try.
void drop_if_never_begun(base::FileSystem& files, const RunFolder& run, const base::Error& error) {
  const bool refused =
      error.exit_code() == 2 || error.exit_code() == 3 || dynamic_cast<const base::CorruptError*>(&error) != nullptr;
  const bool begun = files.exists(run.checkpoints()) || (files.exists(run.metrics()) && files.size(run.metrics()) > 0);
  if (refused && !begun) files.remove_all(run.path());
}

}  // namespace

void apply_nccl(const Session& session) {
  const auto done = comm::apply(session.config.parallel.nccl);
  if (!done.empty() && session.launch.rank == 0) base::log_info("environment: " + done);
}

void settle_device(const Session& session) {
  const int capability = device::gpu_capability(device::open_device(session.config.train.device));
  const auto said = settle_precision(session.config.train, capability);
  if (!said.empty() && session.launch.rank == 0) base::log_warn(said);
}

void settle_batch(RunConfig& config, const host::Launch& launch) {
  if (config.train.batch_per_rank > 0) config.train.batch = config.train.batch_per_rank * launch.world;
}

void make_data_absolute(RunConfig& config) {
  for (auto& path : config.data.path) path = std::filesystem::absolute(path).lexically_normal();
}
void fix_model(RunConfig& config) {
  if (!config.model.from.empty()) config.model.from = interop::fixed_model(base::real_files(), config.model.from);
}

std::string base_to_compare(const Session& session, const StartPoint* past) {
  const RunConfig& config = session.config;
  if (session.launch.world == 1 || config.model.from.empty()) return {};
  const bool has_weights = past != nullptr && config.lora.rank == 0;
  const bool known = past != nullptr && !past->state.base_digest.empty();  // make_starting_model compares
  return has_weights || known ? "" : interop::weights_digest(base::real_files(), config.model.from);
}

std::string check_start(const Session& session, const std::string& model, Behind behind) {
  RunConfig& config = session.config;
  const host::Launch& launch = session.launch;
  check(config, shape_of_model(config, model));
  settle_layout(config, model, launch.world);
  check_processes(config, launch.world);
  check_memory(config, shape_of_model(config, model), device::open_device(config.train.device), launch.world);
  const auto split = open_split(config, shape_of_model(config, model));
  const auto said = settle_epochs(config, split, launch.world, behind);
  if (!said.empty() && launch.rank == 0) base::log_warn(said);
  const std::string fitted = model_for_data(config, model, split).config;
  check_fit(split, shape_of_model(config, fitted), config);
  check_layout(config, fitted, launch.world);
  return split.digest;
}

void begin_run(const Session& session, const std::string& name, bool numbered, const std::string& recipe) {
  RunConfig& config = session.config;
  const base::Settings& settings = session.settings;
  const host::Launch& launch = session.launch;
  auto& files = base::real_files();
  if (!numbered) check_run_name(name);
  if (const auto said = settle_normalisation(files, config); !said.empty() && launch.rank == 0) base::log_info(said);
  const std::string model = model_config(files, config);
  Inputs inputs{model, check_start(session, model)};
  make_data_absolute(config), fix_model(config);
  inputs.base_digest = base_to_compare(session, nullptr);
  auto processes = join(meet(config, launch), config, {settings.toml(false), -1, inputs}, launch);
  auto run = shared_folder(processes.world(), [&] {
    const auto create = numbered ? RunFolder::create_numbered : RunFolder::create;
    return create(files, interop::runs_folder(), name, settings.toml(false));
  });
  try {
    train(files, {.config = config,
                  .settings = settings,
                  .run = run,
                  .recipe = recipe,
                  .processes = &processes,
                  .base_digest = inputs.base_digest});
  } catch (const base::Error& error) {
    if (processes.first()) drop_if_never_begun(files, run, error);
    throw;
  }
}

}  // namespace hyperion::train
