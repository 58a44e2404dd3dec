// Whether a run that goes on is the run it was. Its checkpoint knows, under its checksum; the files beside it, the
// recipe and the flags may say something else.
#pragma once
#include <string>
#include <vector>

#include "hyperion/train/config.h"
#include "hyperion/train/run_state.h"

namespace hyperion::train {

// What must be as it was: the model, the data, the seed, the precision, the length, the update rule.
bool belongs_to_run(const std::string& setting);

struct PastRun {
  std::string name;
  const RunConfig& config;
  const base::Settings& settings;  // bound to config; each has its file as origin
  const StartPoint* start;         // null: there is no checkpoint yet
};

// What the run will do other than it did so far, a line each. Throws ConfigError where that belongs to the run. A
// change of train.steps leaves the learning rates as they were planned: it may set config.optim.decay_steps.
std::vector<std::string> changes_of(const PastRun& past, RunConfig& config, const base::Settings& settings);

// For those who only look at a run: throws ConfigError where its settings are not those of the checkpoint, but for
// where data and models lie.
void check_same_run(base::FileSystem& files, const std::string& run, const base::Path& checkpoint,
                    const base::Settings& settings);

// Throws ConfigError where `text`, the model.json at `place`, is not the model of the checkpoint.
void check_same_model(const std::string& text, const std::string& place, const StartPoint& start);

}  // namespace hyperion::train
