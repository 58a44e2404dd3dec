// `hyperion bench train`: whole training steps of the canonical workloads, on random weights and samples that lie on
// the device; beside PyTorch's own, timed the same way in the same run, where that is asked for.
//
// The first step is timed alone; some more warm up, with every batch; a GPU then rests for two seconds, so that no row
// runs at a clock that what was before it has left; then blocks of steps run back to back, synchronized once a block. A
// figure is the median block's. Memory is the peak of the GPU's allocator, from before the model is made.
#pragma once
#include <c10/core/Device.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/error.h"
#include "hyperion/bench/outcome.h"
#include "hyperion/bench/train_row.h"
#include "hyperion/bench/workloads.h"
#include "hyperion/profile/timing.h"
#include "hyperion/profile/trace.h"

namespace hyperion::bench {

struct TrainBenchOptions {
  std::string workloads = "all", device = "auto";
  std::vector<std::string> modes;  // of train.optimize; empty: the default of that setting
  int64_t steps = 50;
  Changes changes;  // of settings: precision and what else
  bool peers = false, trace = false;
  std::vector<std::string> peer_modes = {"eager", "compile", "compile+graphs"};
  base::Path folder;  // where traces go
};

constexpr int64_t kTracedSteps = 5;

struct TrainResult {
  std::string device_name;
  int64_t steps = 0;
  std::vector<TrainRow> rows;
  std::vector<std::string> notes;
  std::vector<std::string> settings = {};
  std::optional<base::Interrupted> stopped = {};  // the rows are those that were done by then
  bool ours_failed() const;                       // whether none of our own rows has figures
};

// Shows progress. What runs out of memory, or what a setting refuses, becomes a row that says so.
TrainResult run_train_bench(const TrainBenchOptions& options);

Outcome train_outcome(const TrainResult& result);

// One measured row of a config, as above. Throws what the step throws.
class RandomTraining;
struct Watch {
  std::function<void(RandomTraining& training, TrainRow& row)> look = {};  // may run more steps when all is measured
  std::function<void(int64_t steps)> timed = {};                           // before each block: those so far
};
TrainRow measure_training(const Workload& workload, const train::RunConfig& config, int64_t steps,
                          const Watch& watch = {});

// The same of a workload in a mode (empty: the default); what throws, but for a stop, becomes a row that says why there
// are no figures.
TrainRow attempt_training(const Workload& workload, const std::string& mode, Changes changes, int64_t steps,
                          const Watch& watch = {});

// What ran in kTracedSteps steps; `file` gets the whole trace, with a step before them that finds an idle device and
// waits for each launch, and is left out here.
std::vector<profile::TracedSpan> traced_steps(RandomTraining& training, c10::Device device, const base::Path& file);

// How many steps are timed at once: ten; of documents one with each batch, also where fewer are asked for, so that
// every block has the same tokens.
int64_t block_steps(const train::RunConfig& config, int64_t steps);

// "the median of 5 blocks of 10 steps"
std::string blocks_text(int64_t steps, int64_t block);

}  // namespace hyperion::bench
