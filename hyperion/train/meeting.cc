#include "hyperion/train/meeting.h"

#include <chrono>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/signals.h"
#include "hyperion/kernels/device.h"
#include "hyperion/train/run_settings.h"

namespace hyperion::train {
namespace {

using base::format;

// The first line in which two resolved recipes differ, but for what belongs to a machine.
std::string difference(const std::string& own, const std::string& first) {
  std::istringstream ours(own), theirs(first);
  std::string mine, other, section;
  for (;;) {
    const bool more = static_cast<bool>(std::getline(ours, mine)),
               there = static_cast<bool>(std::getline(theirs, other));
    if (!more && !there) return {};
    if (more && mine.starts_with("[")) section = mine;
    const bool of_machine = mine.starts_with("threads =") || mine.starts_with("device =");
    if (more != there || (mine != other && !of_machine))
      return format("{} {} here, {} there", section, more ? mine : "nothing", there ? other : "nothing");
  }
}

// Ranks with other settings would train something that no one asked for, and say nothing.
void expect_same_settings(comm::World& world, const std::string& settings) {
  const std::string differs = difference(settings, world.from_first("settings", [&] { return settings; }));
  if (!differs.empty())
    throw base::ConfigError(format("rank {} has other settings than rank 0: {}", world.rank(), differs),
                            "start every rank with the same recipe, flags and HYPERION_ variables");
}

// Every rank looks at the run's folder for itself. One that sees another one would train another run.
void expect_same_start(comm::World& world, int64_t step) {
  const auto text = [](int64_t from) {
    return from < 0 ? std::string("begins anew") : format("goes on from step {}", from);
  };
  const std::string first = world.from_first("start", [&] { return text(step); });
  if (first != text(step))
    throw base::ConfigError(format("rank {} {}, and rank 0 {}", world.rank(), text(step), first),
                            "all ranks need the same folder of runs: HYPERION_RUNS on a disk that they share");
}

}  // namespace

HeldRun::HeldRun(const base::Path& run, const host::Launch& launch) {
  if (launch.rank != 0) return;
  try {
    folder_.emplace(RunFolder::open(base::real_files(), run));
    restore_run_settings(base::real_files(), run);
  } catch (const base::Error&) {
    if (launch.world == 1) throw;
    refused_ = std::current_exception();
  }
}

RunFolder HeldRun::take() {
  if (refused_) std::rethrow_exception(refused_);
  return std::move(*folder_);
}

std::shared_ptr<comm::World> meet(const RunConfig& config, const host::Launch& launch) {
  base::throw_if_stopped("starting");  // the job may have ended while this rank was still reading its settings
  return comm::World::join(launch, {.timeout = std::chrono::seconds(config.parallel.timeout),
                                    .stall = std::chrono::seconds(config.parallel.stall)});
}

parallel::Processes join(std::shared_ptr<comm::World> world, const RunConfig& config, const std::string& settings,
                         const host::Launch& launch, int64_t step) {
  // NCCL wants a GPU for each process; where they share one, tensors go by way of the host.
  const bool gpu = kernels::open_device(config.train.device).is_cuda() && launch.local_world > 0 &&
                   launch.local_world <= kernels::gpu_count();
  expect_same_start(*world, step);
  expect_same_settings(*world, settings);
  return parallel::Processes(std::move(world), config.parallel, gpu);
}

RunFolder shared_folder(comm::World& world, const std::function<RunFolder()>& make) {
  std::optional<RunFolder> run;
  const std::string path = world.from_first("run", [&] {
    run.emplace(make());
    return run->path().string();
  });
  return run ? std::move(*run) : RunFolder::join(path);
}

}  // namespace hyperion::train
