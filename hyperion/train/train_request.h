// The loop, and what it is asked to do: from a fresh start or the newest good checkpoint to the last step, leaving
// metrics, checkpoints and a report.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/config.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_folder.h"

namespace hyperion::parallel {
class Processes;
}

namespace hyperion::train {

struct StartPoint;

struct TrainRequest {
  const RunConfig& config;
  const base::Settings& settings;  // bound to config; for the report
  RunFolder& run;
  std::string recipe;
  bool resume = false;
  parallel::Processes* processes = nullptr;    // of several: this one is one of them; null: alone
  std::function<void()> accepted = {};         // called once all is there, before the first step: nothing was refused
  std::optional<StartPoint>* start = nullptr;  // of a resume: its checkpoint, let go once it is read; none: from step 0
  std::vector<std::string> changes = {};  // of a resume: what it does other than before, said before the first step
  std::string base_digest = {};           // of the weights of model.from, where they were hashed already
};

// Throws Interrupted after a checkpoint when a signal asked to stop. Prints the step lines, and at the end what was
// reached.
void train(base::FileSystem& files, const TrainRequest& request);

}  // namespace hyperion::train
