// How the processes of a run come together: they find each other, that they mean the same, and whose folder it is.
#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <optional>

#include "hyperion/host/launch.h"
#include "hyperion/parallel/processes.h"
#include "hyperion/train/config.h"
#include "hyperion/train/run_folder.h"

namespace hyperion::train {

// Rank 0 holds the run from here on, so that no one changes what is read. What it is refused the others hear when they
// meet.
class HeldRun {
 public:
  HeldRun(const base::Path& run, const host::Launch& launch);
  bool refused() const { return refused_ != nullptr; }
  RunFolder take();  // by rank 0

 private:
  std::optional<RunFolder> folder_;
  std::exception_ptr refused_;
};

std::shared_ptr<comm::World> meet(const RunConfig& config, const host::Launch& launch);

// `settings`: as TOML, which must be the same on all. `step` is where the run goes on; -1: it begins.
parallel::Processes join(std::shared_ptr<comm::World> world, const RunConfig& config, const std::string& settings,
                         const host::Launch& launch, int64_t step);

// The run's folder is made or opened by the first process; the others are told where it is.
RunFolder shared_folder(comm::World& world, const std::function<RunFolder()>& make);

}  // namespace hyperion::train
