#include <filesystem>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/interop/base_weights.h"
#include "hyperion/interop/open_model.h"
#include "hyperion/models/registry.h"
#include "hyperion/train/feed.h"
#include "hyperion/train/model_for_data.h"
#include "hyperion/train/preflight.h"
#include "hyperion/train/run_identity.h"
#include "hyperion/train/run_log.h"
#include "hyperion/train/run_settings.h"
#include "hyperion/train/run_state.h"
#include "hyperion/train/session.h"
#include "hyperion/train/train_request.h"

namespace hyperion::train {
namespace {

using base::format;

RunConfig read_config(const base::Path& run) {
  RunConfig config;
  auto settings = bind(config);
  apply_run_settings(base::real_files(), run, settings);
  return config;
}

// How long a run of epochs is, before anything asks whether it is over.
void settle_steps(RunConfig& config, const std::string& model, const host::Launch& launch, Behind behind) {
  if (config.train.epochs == 0) return;
  const auto split = open_split(config, models::config_shape(model, "the model", config.train.length));
  const auto said = settle_epochs(config, split, launch.world, behind);
  if (!said.empty() && launch.rank == 0) base::log_warn(said);
}

// What the run was until now: as its newest checkpoint says, else its own file.
std::vector<std::string> compare_with_past(const RunFolder& place, const std::optional<StartPoint>& start,
                                           RunConfig& config, const base::Settings& settings) {
  RunConfig before;
  auto was = bind(before);
  apply_run_settings(base::real_files(), place.path(), was);
  if (start) apply_settings(start->state.settings, was, start->manifest());
  const std::string model = read_run_model(base::real_files(), place.path());
  if (start && !model.empty()) check_same_model(model, place.model().string(), *start);
  return changes_of({place.name(), before, was, start ? &*start : nullptr}, config, settings);
}

// Than when its newest checkpoint was written: who asks for more steps wants them after an early stop too.
bool is_longer(const RunConfig& config, const StartPoint& start) {
  RunConfig before;
  auto was = bind(before);
  apply_settings(start.state.settings, was, start.manifest());
  return config.train.steps > before.train.steps;
}

// Where checkpoints were written and are not there any more, to begin anew would throw away what is left of the run.
void refuse_lost_checkpoints(const report::RunRecord& record, const RunFolder& place, int64_t every) {
  const bool ended = record.status == "complete" || record.status == "stopped";
  const bool written = ended ? record.step > 0 : every > 0 && record.step > every;
  if (!written) return;
  throw base::ConfigError(
      format("run {} was at step {}, and its checkpoints are not in {} any more", place.name(), record.step,
             place.checkpoints().string()),
      format("put them back; or train anew: under another name, or after `hyperion runs rm {}`", place.name()));
}

// A complete run that was moved is told where its data and its base lie now; the content must be the same.
void keep_places(const RunConfig& config, const base::Settings& settings, const RunFolder& place,
                 const StartPoint& start, const std::string& model) {
  auto& files = base::real_files();
  const RunConfig past = read_config(place.path());
  const bool data = past.data.path != config.data.path, base = past.model.from != config.model.from;
  if (!data && !base) return;
  if (data) {
    const auto split = open_split(config, models::config_shape(model, "the model", config.train.length));
    split.check_fitted(start.state.data_digest);
    if (!split.is_of(start.state.data_digest))
      throw base::ConfigError(
          format("{} is not the data that run {} was trained on", config.data.path.front(), place.name()),
          "name the folder that was moved");
  }
  if (base && !start.state.base_digest.empty())
    interop::remember_base(files, place.path(), start.state.base_digest, config.model.from);
  base::write_atomically(files, place.config(), settings.toml(false));
  if (data) base::log_info(format("run {} finds its data at {}", place.name(), config.data.path.front()));
  if (base) base::log_info(format("run {} finds its base at {}", place.name(), config.model.from));
}

// What a run that is complete is told to do otherwise, and will not.
void warn_of_vain_settings(const RunFolder& place, const base::Settings& settings) {
  RunConfig past;
  auto was = bind(past);
  apply_run_settings(base::real_files(), place.path(), was);
  for (const auto& now : settings.all()) {
    const std::string name = now.name();
    const bool taken = name == "data.path" || name == "model.from";  // by keep_places
    const bool settled = name == "train.steps" || name == "optim.warmup" || name == "optim.decay_steps";
    if (taken || (settled && !now.origin.starts_with("--")) || now.text() == was.at(name).text()) continue;
    base::log_warn(format("{} = {} has no effect: run {} is complete, and was trained with {}", name, now.text(),
                          place.name(), was.at(name).text()));
  }
}

}  // namespace

void settle_as_begun(RunConfig& config, const base::Path& run) {
  const auto absolute = [](const base::Path& path) { return std::filesystem::absolute(path).lexically_normal(); };
  const RunConfig past = read_config(run);
  if (auto& normalise = config.data.augment.normalise; normalise == "auto") normalise = past.data.augment.normalise;
  if (auto& filter = config.data.augment.filter; filter == images::FilterChoice::automatic)
    filter = past.data.augment.filter;
  if (auto& centre = config.data.augment.centre; centre == 0) centre = past.data.augment.centre;
  if (auto& image = config.model.image; image == 0 && !config.model.from.empty()) image = past.model.image;
  const base::Path of_run = base::Path(past.model.from).parent_path().parent_path();
  const std::string named = config.model.from.substr(0, config.model.from.rfind('@'));  // of RUN@best
  if (named.empty() || past.model.from.empty()) return;
  const bool among_runs = !interop::names_path(named) && absolute(interop::runs_folder() / named) == of_run;
  if (among_runs || absolute(named) == of_run)
    config.model.from = past.model.from;
  else if (std::filesystem::is_directory(named))
    config.model.from = absolute(named);
}

void resume_run(const Session& session, const base::Path& path, HeldRun held) {
  RunConfig& config = session.config;
  const base::Settings& settings = session.settings;
  const host::Launch& launch = session.launch;
  auto& files = base::real_files();
  const auto place = RunFolder::join(path);
  if (held.refused()) shared_folder(*meet(config, launch), [&] { return held.take(); });
  const auto record = past_record(files, path);
  // Of a run that is complete nobody else would look at the tensors, and find that its last steps are lost.
  const auto tensors = record.status == "complete" ? Tensors::now : Tensors::later;
  auto start = find_start(files, place.checkpoints(), tensors);
  const int64_t step = start ? start->checkpoint.step : 0;
  const std::string kept = start ? read_run_model(files, path) : "";
  const std::string model = kept.empty() ? model_config(files, config) : kept;
  settle_batch(config, launch);
  const Behind behind{step, start ? start->state.cursor.samples : 0};
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
    return;
  }
  if (record.status == "complete" && step >= config.train.steps) {
    if (launch.rank == 0) warn_of_vain_settings(place, settings);
    if (start && launch.rank == 0) keep_places(config, settings, place, *start, model);
    if (launch.rank == 0)
      base::print_lines(format("run {} is complete (step {} of {}); nothing to do\nhint: train it further with {}",
                               place.name(), step, record.steps,
                               config.train.epochs > 0 ? "--train.epochs=N" : "--steps N"));
    return;
  }
  if (!start && record.status == "complete" && record.step >= config.train.steps) {
    if (launch.rank == 0)
      base::print_lines(format("run {} is complete (step {} of {}), and its checkpoints are gone; nothing to do",
                               place.name(), record.step, record.steps));
    return;
  }
  if (!start) refuse_lost_checkpoints(record, place, config.checkpoint.every);
  if (step > config.train.steps)
    throw base::ConfigError(
        format("run {} is at step {} already, past train.steps = {}", place.name(), step, config.train.steps),
        "name more steps, or leave --steps out");
  check_schedule(config);
  const Inputs inputs{model, check_start(session, model, behind), base_to_compare(session, start ? &*start : nullptr)};
  auto world = meet(config, launch);
  auto folder = shared_folder(*world, [&] { return held.take(); });
  auto processes = join(std::move(world), config, {settings.toml(false), step, inputs}, launch);
  // What is refused has changed nothing.
  const auto keep = [&] {
    const std::string now = settings.toml(false);
    if (processes.first() && files.read(folder.config()) != now) base::write_atomically(files, folder.config(), now);
  };
  train(files, {.config = config,
                .settings = settings,
                .run = folder,
                .recipe = record.recipe,
                .resume = true,
                .processes = &processes,
                .accepted = keep,
                .start = &start,
                .changes = std::move(changes),
                .base_digest = inputs.base_digest});
}

}  // namespace hyperion::train
