#include "hyperion/train/run_identity.h"

#include <nlohmann/json.hpp>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/json.h"
#include "hyperion/models/registry.h"

namespace hyperion::train {
namespace {

using base::format;
using base::Json;

// Such places may change: the checkpoint knows what lay there by its hash, and Trainer::restore compares.
bool known_by_content(const std::string& setting, const PastRun& past, const RunConfig& config) {
  if (past.start == nullptr) return false;
  if (setting == "data.path")
    return !past.start->state.data_digest.empty() && !past.config.data.path.empty() && !config.data.path.empty();
  if (setting != "model.from" || past.config.model.from.empty() || config.model.from.empty()) return false;
  return config.lora.rank == 0 || !past.start->state.base_digest.empty();  // else only the first step needed it
}

[[noreturn]] void refuse_other_run(const std::string& run, const base::Setting& was, const base::Setting& now) {
  throw base::ConfigError(
      format("run {} was begun with {} = {} ({}), and {} says {}", run, now.name(), was.text(), was.origin,
             now.origin == "default" ? "the default" : now.origin, now.text()),
      format("set {} = {}, as it was; or begin another run: hyperion train RECIPE --run NAME", now.name(), was.text()));
}

bool same_curve(const optim::Schedule& a, const optim::Schedule& b) {
  return a.shape == b.shape && a.shape != optim::ScheduleShape::constant;
}

// A run that is made longer or shorter keeps the learning rates it was begun with, unless it is told where they end.
void keep_schedule_end(const PastRun& past, RunConfig& config) {
  const auto before = optim::schedule_of(past.config.optim, past.config.train.steps),
             now = optim::schedule_of(config.optim, config.train.steps);
  if (config.optim.decay_steps == 0 && same_curve(before, now) && before.steps != now.steps)
    config.optim.decay_steps = before.steps;
  if (config.optim.decay_steps > 0 && config.optim.warmup > config.optim.decay_steps)
    throw base::ConfigError(
        format("optim.warmup = {} is longer than the schedule of run {}, which ends at step {}", config.optim.warmup,
               past.name, config.optim.decay_steps),
        format(
            "--optim.warmup={} keeps the warm-up as it was; --optim.decay_steps={} lets the schedule end with the run",
            past.config.optim.warmup, config.train.steps));
}

std::string schedule_change(const PastRun& past, const RunConfig& config) {
  const int64_t step = past.start->checkpoint.step, steps = config.train.steps;
  const auto before = optim::schedule_of(past.config.optim, past.config.train.steps),
             now = optim::schedule_of(config.optim, steps);
  const double last = before.at(step), next = now.at(step + 1);
  const bool moved = same_curve(before, now) && before.steps != now.steps;
  if (moved || next != before.at(step + 1))
    return format(
        "{}the learning rate goes from {:.3g} at step {} to {:.3g} at step {}",
        moved ? format("the schedule {} at step {}: ", now.steps > step ? "now ends" : "has ended already,", now.steps)
              : "",
        last, step, next, step + 1);
  if (!same_curve(before, now) || now.steps == steps || steps == past.config.train.steps) return {};
  auto stretched = now;
  stretched.steps = steps;
  return format(
      "the schedule ends at step {} as before, {}; --optim.decay_steps={} lets it end with the run, and the "
      "learning rate go from {:.3g} at step {} to {:.3g} at step {}",
      now.steps,
      steps > now.steps ? format("later steps keep its last learning rate, {:.3g}", now.at(steps))
                        : format("and the run at {:.3g}", now.at(steps)),
      steps, last, step, stretched.at(step + 1), step + 1);
}

// The first key in which two descriptions of a model differ; empty: none. A key that only one of them has counts
// where both are written out in full.
std::string differing_key(const Json& a, const Json& b, bool of_both) {
  for (const Json* one : {&a, &b})
    for (const auto& [key, value] : one->items()) {
      const bool both = a.contains(key) && b.contains(key);
      if (both ? a.at(key) != b.at(key) : !of_both) return key;
    }
  return {};
}

}  // namespace

bool belongs_to_run(const std::string& setting) {
  const bool data = (setting.starts_with("data.") && setting != "data.threads") || setting.starts_with("augment.");
  return setting.starts_with("model.") || setting.starts_with("lora.") || data || setting == "train.seed" ||
         setting == "train.precision" || setting == "train.length" || setting == "optim.rule" ||
         setting == "fp8.history";
}

std::vector<std::string> changes_of(const PastRun& past, RunConfig& config, const base::Settings& settings) {
  if (past.start != nullptr) keep_schedule_end(past, config);
  const bool same_end = optim::schedule_of(past.config.optim, past.config.train.steps).steps ==
                        optim::schedule_of(config.optim, config.train.steps).steps;
  std::vector<std::string> lines;
  for (const auto& now : settings.all()) {
    const std::string name = now.name();
    const base::Setting& was = past.settings.at(name);
    if (now.text() == was.text() || (name == "optim.decay_steps" && same_end)) continue;
    if (belongs_to_run(name) && !known_by_content(name, past, config)) refuse_other_run(past.name, was, now);
    lines.push_back(format("run {} goes on with {} = {}; it was {}", past.name, name, now.text(), was.text()));
  }
  if (past.start == nullptr) return lines;
  if (auto line = schedule_change(past, config); !line.empty()) lines.push_back(std::move(line));
  return lines;
}

void check_same_run(base::FileSystem& files, const std::string& run, const base::Path& checkpoint,
                    const base::Settings& settings) {
  RunConfig before;
  auto was = bind(before);
  apply_settings(settings_json(settings), was, run);
  apply_settings(read_known_settings(files, checkpoint), was, (checkpoint / "manifest.json").string());
  for (const auto& now : settings.all()) {
    const std::string name = now.name();
    if (name == "data.path" || name == "model.from" || !belongs_to_run(name)) continue;  // of places see above
    if (now.text() != was.at(name).text()) refuse_other_run(run, was.at(name), now);
  }
}

void check_same_model(const std::string& text, const std::string& place, const StartPoint& start) {
  const std::string manifest = start.manifest();
  const Json full_here = base::parse_json(models::make_config(text, place), place);
  const Json full_there = base::parse_json(models::make_config(start.state.model, manifest), manifest);
  const Json here = base::parse_json(text, place), there = base::parse_json(start.state.model, manifest);
  std::string key = differing_key(here, there, /*of_both=*/true);
  const bool as_written = !key.empty();
  if (!as_written) key = differing_key(full_here, full_there, /*of_both=*/false);
  if (key.empty()) return;
  const auto shown = [&](const Json& of) { return of.contains(key) ? of.at(key).dump() : std::string("nothing"); };
  const std::string own = shown(as_written ? here : full_here), known = shown(as_written ? there : full_there);
  throw base::ConfigError(
      format("{} is of another model than the run's checkpoint: it has {} = {}, and {} has {}", place, key, own,
             manifest, known),
      format("put {} = {} back; or begin another run: hyperion train RECIPE --run NAME", key, known));
}

}  // namespace hyperion::train
