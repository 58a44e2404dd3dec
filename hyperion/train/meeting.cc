#include "hyperion/train/meeting.h"

#include <chrono>
#include <sstream>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/hash.h"
#include "hyperion/base/signals.h"
#include "hyperion/base/words.h"
#include "hyperion/device/device.h"
#include "hyperion/train/run_settings.h"

namespace hyperion::train {
namespace {

using base::format;

enum class Settled { left_out, compared };  // what epochs of the data become

// The first line in which two resolved recipes differ, but for what belongs to a machine.
std::string difference(const std::string& own, const std::string& first, Settled settled) {
  std::istringstream ours(own), theirs(first);
  std::string mine, other, section;
  for (;;) {
    const bool more = static_cast<bool>(std::getline(ours, mine)),
               there = static_cast<bool>(std::getline(theirs, other));
    if (!more && !there) return {};
    if (more && mine.starts_with("[")) section = mine;
    const bool of_machine = mine.starts_with("threads =") || mine.starts_with("device =");
    const bool of_data =
        mine.starts_with("steps =") || mine.starts_with("warmup =") || mine.starts_with("decay_steps =");
    if (more != there || (mine != other && !of_machine && !(of_data && settled == Settled::left_out)))
      return format("{} {} here, {} there", section, more ? mine : "nothing", there ? other : "nothing");
  }
}

// Ranks with other settings would train something that no one asked for, and say nothing.
void expect_same_settings(int rank, const std::string& settings, const std::string& first, Settled settled) {
  const std::string differs = difference(settings, first, settled);
  if (!differs.empty())
    throw base::ConfigError(format("rank {} has other settings than rank 0: {}", rank, differs),
                            "start every rank with the same recipe, flags and HYPERION_ variables");
}

// Nor may the same names mean something else to a rank: its share of each batch would be of other data, its piece of
// the weights of another model. Every rank knows what all found, so all of them say it.
void expect_same_inputs(comm::World& world, const RunConfig& config, const Inputs& inputs) {
  if (world.size() == 1) return;
  const auto group = world.group("inputs");
  if (config.parallel.check_calls) group->check_calls();
  const auto expect = [&](const std::string& own, const std::string& what, const std::string& hint) {
    const auto all = group->gather_text(base::hash_hex(own), "inputs");
    std::string ranks;
    size_t other = 0;
    for (size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      if (other == 0) other = rank;
      ranks += format("{}{}", ranks.empty() ? "" : ", ", rank);
    }
    if (other != 0)
      throw base::ConfigError(
          format("{} on rank {} than on rank 0: its hash is {} instead of {}", what, ranks, all[other], all[0]), hint);
  };
  const std::string hint = "ranks need the same files: on a disk that they share, or the same copy on every machine";
  const std::string data = config.data.path.empty() ? base::word_of(config.data.source) : config.data.path.front();
  const std::string from = config.model.from.empty() ? "" : format(" at {}", config.model.from);
  expect(inputs.model, format("the config.json of the model{} is another", from), hint);
  expect(inputs.data_digest,
         format("the data at {}{} is other", data, config.data.path.size() > 1 ? " and the others" : ""), hint);
  expect(inputs.base_digest, format("model.from = {} has other weights", config.model.from), hint);
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
    base::real_files().create_folders(run / "logs");  // others may have cleared them away
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

parallel::Processes join(std::shared_ptr<comm::World> world, const RunConfig& config, const Common& common,
                         const host::Launch& launch) {
  // NCCL wants a GPU for each process; where they share one, tensors go by way of the host.
  const bool gpu = device::open_device(config.train.device).is_cuda() && launch.local_world > 0 &&
                   launch.local_world <= device::gpu_count();
  expect_same_start(*world, common.step);
  const std::string first = world->from_first("settings", [&] { return common.settings; });
  // How many steps an epoch has follows from the data: where that differs, it is what is to be said.
  expect_same_settings(world->rank(), common.settings, first, Settled::left_out);
  expect_same_inputs(*world, config, common.inputs);
  expect_same_settings(world->rank(), common.settings, first, Settled::compared);
  auto layout = config.parallel;
  using parallel::ReduceChoice;
  if (config.train.deterministic && layout.reduce == ReduceChoice::automatic)
    layout.reduce = ReduceChoice::fixed;  // a library promises no order
  return parallel::Processes(std::move(world), layout, gpu);
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
