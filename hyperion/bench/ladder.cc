#include "hyperion/bench/ladder.h"

#include <algorithm>

#include "hyperion/base/error.h"
#include "hyperion/base/format.h"
#include "hyperion/base/log.h"
#include "hyperion/bench/random_training.h"
#include "hyperion/kernels/device.h"
#include "hyperion/profile/phase_order.h"

namespace hyperion::bench {
namespace {

using base::format;

constexpr int64_t kMarkedSteps = 10;

// A whole step replayed as one graph passes no marks.
bool replays(const std::string& mode) { return mode == "graph" || mode == "max"; }

profile::PhaseTimes marked_phases(RandomTraining& training, bool gpu) {
  std::array<std::vector<double>, 4> times;
  for (int64_t step = 0; step < kMarkedSteps; ++step) {
    const auto timer = profile::make_step_timer(gpu);
    training.step(*timer);
    const auto phases = timer->milliseconds();
    for (size_t i = 0; i < phases.size(); ++i) times[i].push_back(phases[i]);
  }
  profile::PhaseTimes medians{};
  for (size_t i = 0; i < medians.size(); ++i) medians[i] = quantile(times[i], 0.5);
  return medians;
}

void look_at_kernels(Rung& rung, RandomTraining& training, at::Device device, const base::Path& file) {
  base::real_files().create_folders(file.parent_path());
  profile::TraceRecorder recorder(device.is_cuda());
  for (int64_t step = 0; step < kTracedSteps; ++step) training.step();
  kernels::synchronise(device);
  const auto spans = recorder.end(file.string()).spans;
  rung.row.gaps = profile::gaps_between(spans);
  rung.launches = std::count_if(spans.begin(), spans.end(), [](const auto& span) { return !span.continued; });
  rung.launches /= kTracedSteps;
  rung.kernels = profile::kernel_totals(spans);
  for (auto& kernel : rung.kernels) {
    kernel.milliseconds /= static_cast<double>(kTracedSteps);
    kernel.count = (kernel.count + kTracedSteps / 2) / kTracedSteps;
  }
  if (!rung.phases) {
    rung.phases = profile::phases_by_order(spans, kTracedSteps);
    rung.phases_from_kernels = rung.phases.has_value();
  }
}

Rung climb(const Workload& workload, const std::string& mode, const LadderOptions& options) {
  Rung rung;
  Changes changes = options.changes;
  changes.emplace_back("train.optimize", mode);
  train::RunConfig config;
  try {
    config = config_of(workload, changes);
  } catch (const base::ConfigError& error) {
    rung.row = failed_row(workload, mode, workload.precision, error.what());
    return rung;
  }
  const auto device = kernels::open_device(config.train.device);
  try {
    rung.row = measure_training(workload, config, options.steps, [&](RandomTraining& training, TrainRow& row) {
      if (!replays(mode)) rung.phases = marked_phases(training, device.is_cuda());
      if (!options.trace) return;
      look_at_kernels(rung, training, device, options.folder / "traces" / format("{}.{}.json", workload.name, mode));
      row.gaps = rung.row.gaps;
    });
  } catch (const std::exception& error) {
    if (!train::is_out_of_memory(error)) throw;
    rung.row = failed_row(workload, mode, config.train.precision, "out of memory");
  }
  return rung;
}

}  // namespace

Ladder run_ladder(const Workload& workload, const LadderOptions& given) {
  LadderOptions options = given;
  options.changes.emplace_back("train.device", options.device);
  config_of(workload, options.changes);  // what is wrong with every rung is said at once
  Ladder ladder{workload.name, kernels::device_text(kernels::open_device(options.device)), options.steps, {}};
  base::ProgressLine progress;
  for (const auto& mode : options.modes) {
    progress.show(format("{} {}", workload.name, mode));
    ladder.rungs.push_back(climb(workload, mode, options));
  }
  progress.clear();
  return ladder;
}

}  // namespace hyperion::bench
