// What a job runs that its launcher may start again: a training run that goes on where it was.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "hyperion/base/files.h"

namespace hyperion::cli {

struct Restartable {
  std::vector<std::string> command;
  std::optional<base::Path> run;  // the run that it trains, which may not exist yet; none: it trains no run
  bool named_here = false;        // it had no name
};

// Whether the command is `train` or `resume`; it may begin with this program's own path.
bool trains_a_run(const std::vector<std::string>& command);

// `train` gets a name for its run, of the recipe and the time, where it has none, and --or-resume; other commands stay
// as they are.
Restartable restartable(std::vector<std::string> command, double unix_seconds);

// The step of a run's newest complete checkpoint, and the last one in its metrics; 0: none.
int64_t saved_step(const base::Path& run);
int64_t reached_step(const base::Path& run);

// Seconds that 99 of a hundred of its last steps took at most, of some hundreds; 0: there are too few to tell.
double slow_step(const base::Path& run);

}  // namespace hyperion::cli
