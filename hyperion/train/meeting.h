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

// What a rank found under the names of its settings. On disks of their own, ranks may find something else.
struct Inputs {
  std::string model;             // as config.json
  std::string data_digest;       // as data::Split has it
  std::string base_digest = {};  // as interop::weights_digest has it; empty: none is read, or a checkpoint knows it
};

// What must be the same on all ranks; each throws ConfigError where it is not.
struct Common {
  std::string settings;  // as TOML
  int64_t step = -1;     // where the run goes on; -1: it begins
  Inputs inputs;
};
parallel::Processes join(std::shared_ptr<comm::World> world, const RunConfig& config, const Common& common,
                         const host::Launch& launch);

// The run's folder is made or opened by the first process; the others are told where it is.
RunFolder shared_folder(comm::World& world, const std::function<RunFolder()>& make);

}  // namespace hyperion::train
