// `hyperion bench ladder`: one workload in each mode of train.optimize, from plain operations up, with where each
// rung's time went and which kernels changed. `hyperion bench optimize` is several such ladders side by side.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hyperion/bench/train.h"
#include "hyperion/profile/step_timer.h"
#include "hyperion/profile/trace.h"

namespace hyperion::bench {

struct LadderOptions {
  std::string device = "auto";
  std::vector<std::string> modes = {"reference", "fused", "graph", "max"};
  int64_t steps = 50;
  Changes changes;
  bool trace = true;  // a trace of each rung, for its kernels
  base::Path folder;  // where traces go
};

struct Rung {
  TrainRow row;                               // its mode, total time and memory; or why there are none
  std::optional<profile::PhaseTimes> phases;  // milliseconds a step
  bool phases_from_kernels = false;           // told from the order of kernels, not from marks
  std::vector<profile::KernelTotal> kernels;  // a step's, the most time first
  int64_t launches = 0;                       // kernels a step
  bool up() const { return row.failed.empty(); }
};

struct Ladder {
  std::string workload, device_name;
  int64_t steps = 0;
  std::vector<Rung> rungs;
  std::vector<std::string> settings = {};
  std::optional<base::Interrupted> stopped = {};  // the rungs are those that were done by then
};

Ladder run_ladder(const Workload& workload, const LadderOptions& options);

Outcome ladder_outcome(const Ladder& ladder);
Outcome optimize_outcome(const std::vector<Ladder>& ladders);

}  // namespace hyperion::bench
