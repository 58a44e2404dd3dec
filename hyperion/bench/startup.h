// `hyperion bench startup`: from exec to the end of the first training step, in processes of their own. Weights and
// samples are random and drawn on the device; nothing is read from files but the program and its libraries.
#pragma once
#include <string>
#include <vector>

#include "hyperion/bench/outcome.h"
#include "hyperion/bench/workloads.h"
#include "hyperion/profile/timing.h"

namespace hyperion::bench {

struct StartupOptions {
  std::string workload, device = "auto";
  std::string mode;  // of train.optimize; empty: its default
  Changes changes;
  int64_t repeats = 3;
};

// Seconds of one start, one after the other.
struct Startup {
  double load = 0;    // exec, and the libraries
  double device = 0;  // opened, and the first memory of it taken
  double model = 0;   // weights, optimizer and samples
  double step = 0;    // the first step, its loss read
  double total() const { return load + device + model + step; }
};

// What the process that is started does; prints nothing. `load` counts from `begun`, in seconds of the wall clock.
Startup first_step(const StartupOptions& options, double begun);
std::string startup_line(const Startup& startup);  // as one line, for the process that started it

struct StartupResult {
  std::string workload, mode, precision, device_name;
  std::vector<Startup> runs;
  std::vector<std::string> settings = {};
};

// `arguments`: what makes this program call first_step; the workload and settings are among them.
StartupResult run_startup_bench(const StartupOptions& options, const std::vector<std::string>& arguments);

Outcome startup_outcome(const StartupResult& result);

}  // namespace hyperion::bench
